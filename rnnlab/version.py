"""The version of rnnlab: what the package is called by, and what records of trials keep."""

VERSION = "0.1.0"
