"""Put the record of a study back into a store, to continue it there: on another machine, or long after."""

from collections.abc import Sequence
from itertools import zip_longest

from rnnlab.errors import TuningError
from rnnlab.studies.records import StudyRecord
from rnnlab.studies.repeats import repeats_name
from rnnlab.studies.stored import StoredSpec, keep_spec
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.lots import Lots
from rnnlab.tuning.sittings import write_sitting
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trial, Trials


def restore_study(record: StudyRecord, store: Store) -> None:
    """Make a study as its record describes it. Trials that had not ended are trained again from the beginning.

    Learning curves have the points that the record kept; nothing else is lost.

    Args:
        record: of the study.
        store: a store without a study of that name.

    Raises:
        TuningError: the store has one already.
    """
    second = repeats_name(record.name)
    if {record.name, second} & set(store.study_names()):
        raise TuningError(f"store {store.place} has a study {record.name!r} already: go on with that one, by its name")
    store.add_study(record.name, [each.arm for each in record.arms])
    if record.spec is not None:
        keep_spec(store, record.name, StoredSpec(record.spec, {each.arm.name: each.labels for each in record.arms}))
    for each in record.arms:
        _restore_arm(store, record.name, each.arm, each.trials)
    # all first ones, then all second ones, as `decide_repeats` has them
    places = zip_longest(*(each.finalists for each in record.arms))
    finalists = [each for place in places for each in place if each is not None]
    if finalists:
        store.add_study(second, [each.arm for each in finalists])
    for each in finalists:
        _restore_arm(store, second, each.arm, each.trials)
    for sitting in record.sittings:
        write_sitting(store, sitting)


def _restore_arm(store: Store, study: str, arm: Arm, trials: Sequence[Trial]) -> None:
    """All trials up to the last that has ended, as one lot: budgets count what was given out."""
    count = max((trial.number + 1 for trial in trials if trial.has_ended), default=0)
    kept = [trial for trial in trials if trial.number < count]
    if not kept:
        return
    if [trial.number for trial in kept] != list(range(count)):
        raise TuningError(f"the record of {arm.name} in {study!r} lacks some of its first {count} trials")
    lots = Lots(store, study)
    seconds = max(trial.wall_seconds or 0.0 for trial in kept)
    lot = lots.claim(arm.name, [], [trial.point for trial in kept], "a record", seconds=seconds)
    if lot is None:
        raise TuningError(f"store {store.place}: another process is adding {study!r}")
    Trials(store, study, arm).restore(lot, kept)
    is_over = lots.finish(lot) if all(trial.has_ended for trial in kept) else lots.hand_back(lot)
    assert is_over, "a lot that was just made is nobody else's"
