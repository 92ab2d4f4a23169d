"""The two stages of a study, as one worker sees them: tuning, then the best settings over seeds."""

from rnnlab.studies.repeats import decide_repeats, repeats_name
from rnnlab.studies.stored import read_spec
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work


def work_on_stages(store: Store, study: str, how: Work) -> bool:
    """Work on a study until it is done, or `how.stop` says so; returns whether it is done.

    Any number of workers may do so at once. The first to find that all trials of tuning have ended decides what is
    trained over seeds; the others read that decision.

    Args:
        store: where the study is.
        study: its name.
        how: everything about the worker itself.

    Raises:
        TuningError: there is no such study, or the store cannot be used.
    """
    arms, stored = store.arms(study), read_spec(store, study)
    if not work(store, study, arms, how):
        return False
    if stored is None or not stored.spec.seeds:
        return True
    repeats = decide_repeats(store, study, arms, stored.spec.seeds, stored.spec.finalists)
    return work(store, repeats_name(study), repeats, how) if repeats else True
