"""The errors rnnlab raises for wrong input: each says what is wrong, with which values, and what to do next."""


class RnnlabError(ValueError):
    """Base of every error that a user can cause and fix."""


class GraphError(RnnlabError):
    """The graph breaks a condition of definition 2.1, or has no answer to the question that was asked."""


class ArchitectureError(RnnlabError):
    """Cells, widths or transforms do not fit the graph, or a size that cannot be reached was asked for."""


class ModelError(RnnlabError):
    """What was passed to a model does not fit it: shapes, types, a state or a file of another model."""


class BenchError(RnnlabError):
    """A race that would not be fair: both sides compute different things, or one of them broke down."""


class TaskError(RnnlabError):
    """A task cannot be built or fed as asked: a wrong name, argument, batch or split."""


class CheckpointError(RnnlabError):
    """A checkpoint cannot be written or read, or belongs to another run."""


class TrainingError(RnnlabError):
    """Training cannot be done as asked: a wrong hyperparameter, or members that cannot be trained together."""


class TuningError(RnnlabError):
    """Tuning or a study cannot be done as asked: a wrong space, specification or budget, or an unusable store."""
