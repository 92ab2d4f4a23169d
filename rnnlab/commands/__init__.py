"""Commands of the command line that have a file of their own: parse, call one public function, print."""
