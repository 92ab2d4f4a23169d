"""Studies: from a specification to records of every trial."""
