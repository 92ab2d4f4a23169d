"""The errors rnnlab raises for wrong input: each says what is wrong, with which values, and what to do next."""


class RnnlabError(ValueError):
    """Base of every error that a user can cause and mend."""


class GraphError(RnnlabError):
    """The graph breaks a condition of definition 2.1, or a question was asked that has no answer for it."""
