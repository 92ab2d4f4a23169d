"""Speed and memory against the peers on this machine; `rnnlab bench`."""
