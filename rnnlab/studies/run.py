"""Run a study: make its arms, tune all of them, train the best settings over seeds; here, in processes, or on Ray."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from rnnlab.errors import TuningError
from rnnlab.studies.expansion import LabelledArm, expand
from rnnlab.studies.finding import find_spec, is_file, shipped_specs
from rnnlab.studies.keys import whole
from rnnlab.studies.paper import read_paper
from rnnlab.studies.processes import checked_workers, work_in_processes
from rnnlab.studies.ray_workers import work_on_ray
from rnnlab.studies.records import StudyRecord, is_record_file, load_record
from rnnlab.studies.repeats import check_may_grow
from rnnlab.studies.restoring import restore_study
from rnnlab.studies.specification import StudySpec
from rnnlab.studies.stages import work_on_stages
from rnnlab.studies.stored import StoredSpec, is_there, keep_spec, opened, read_spec
from rnnlab.tuning.arms import require_data
from rnnlab.tuning.events import TuningEvent
from rnnlab.tuning.store import DEFAULT, Store
from rnnlab.tuning.work import Work


class WorkOptions(TypedDict, total=False):
    """The keyword arguments of `Work`, for functions that pass them on."""

    device: torch.device | str
    population: int | None
    checkpoints: str | Path | None
    save_every: int | None
    report: Callable[[TuningEvent], None] | None
    report_every: int
    stop: Callable[[], bool] | None
    grace: float


def run_study(
    spec: StudySpec | str | Path,
    *,
    scale: str | None = None,
    store: str | Path = DEFAULT,
    workers: int = 1,
    ray: str | None = None,
    cpus_per_worker: int = 1,
    **options: Unpack[WorkOptions],
) -> StudyRecord:
    """Run the study that a specification describes, as far as it has not been run, and return all its results.

    Called again, it continues where it stopped; several processes or machines that call it with the same store share
    the work.

    Args:
        spec: a specification, a file that contains one, or the name of one that comes with rnnlab or of a study in the
            store.
        scale: which of its scales, if `spec` is a file or a name.
        store: a SQLite file, or the URL of a PostgreSQL database.
        workers: how many processes of this machine, or tasks of the cluster, share the work.
        ray: the address of a Ray cluster, or `local`.
        cpus_per_worker: how many cores each worker has on the cluster, if it has no GPU.
        options: as in `Work`.

    Raises:
        TuningError: the specification is wrong, or the store cannot be used.

    >>> import tempfile
    >>> spec = StudySpec.from_json({"name": "first", "architectures": ["sh", "td"], "units": 3, "trials": 2, "seeds": 2,
    ...                             "task": {"name": "adding", "length": 5, "num_evaluation": 50}, "space": "zhang",
    ...                             "hyperparameters": {"num_steps": 4, "evaluate_every": 2, "batch_size": 4}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = run_study(spec, store=f"{folder}/rnnlab.db")
    >>> [(each.arm.name, len(each.trials), len(each.repeats)) for each in record.arms]
    [('sh', 2, 2), ('td', 2, 2)]
    """
    workers, _ = _workers(workers, ray), Work(**options)  # refused, if wrong, before anything is stored
    if not isinstance(spec, StudySpec) and scale is None and _is_stored(spec, store):
        return resume_study(
            str(spec), store=store, workers=workers, ray=ray, cpus_per_worker=cpus_per_worker, **options
        )
    found = _found(spec, scale)
    read_paper(found)  # a wrong [paper] table is refused now, not after everything is trained
    rows = expand(found)
    require_data([row.arm for row in rows])
    place = Store(store)
    try:
        add_study(place, found, rows)
    finally:
        place.close()
    return resume_study(found.study, store=store, workers=workers, ray=ray, cpus_per_worker=cpus_per_worker, **options)


def _workers(workers: int, ray: str | None) -> int:
    return checked_workers(workers) if ray is None else whole("workers", workers, 1)


def _is_stored(written: str | Path, store: str | Path) -> bool:
    """Whether that is the name of a study in the store, and not of a specification."""
    if is_file(written) or written in shipped_specs() or not is_there(store):
        return False
    with opened(store) as place:
        return written in place.study_names()


def _found(spec: StudySpec | str | Path, scale: str | None) -> StudySpec:
    if not isinstance(spec, StudySpec):
        return find_spec(spec, scale=scale)
    if scale is not None:
        raise TuningError("a specification has its scale already: give scale to load_spec")
    return spec


def add_study(store: Store, spec: StudySpec, rows: Sequence[LabelledArm]) -> None:
    """Store a study, so that workers can find it; one that is there stays, but may gain arms, trials, seeds, finalists.

    Args:
        store: where to store it.
        spec: its specification.
        rows: the arms to which that expands.

    Raises:
        TuningError: a different study of that name is there, or one with more seeds.
    """
    rows = _as_stored(store, spec.study, rows)
    arms = [row.arm for row in rows]
    check_may_grow(store, spec.study, arms)
    there = read_spec(store, spec.study)
    if there is not None and there.spec.seeds > spec.seeds:
        raise TuningError(f"study {spec.study!r} has {there.spec.seeds} seeds, which cannot become {spec.seeds}")
    store.add_study(spec.study, arms, may_gain_arms=True)
    keep_spec(store, spec.study, StoredSpec(spec, {row.arm.name: row.labels for row in rows}))


def _as_stored(store: Store, study: str, rows: Sequence[LabelledArm]) -> list[LabelledArm]:
    """The arms that the store has first, by the names that they have there: more arms may take more to tell apart."""
    found = store.arms(study) if study in store.study_names() else ()
    places = {arm.name: place for place, arm in enumerate(found)}
    wanted = {row.arm.name for row in rows}
    left = [arm for arm in found if arm.name not in wanted]  # two arms may differ in nothing but their labels
    named: list[LabelledArm] = []
    for row in rows:
        same = next((arm for arm in left if arm.content == row.arm.content), None)
        if row.arm.name not in places and same is not None:
            left.remove(same)
            row = replace(row, arm=replace(row.arm, name=same.name))
        named.append(row)
    return sorted(named, key=lambda row: places.get(row.arm.name, len(places)))


def resume_study(
    name: str,
    *,
    store: str | Path = DEFAULT,
    workers: int = 1,
    ray: str | None = None,
    cpus_per_worker: int = 1,
    **options: Unpack[WorkOptions],
) -> StudyRecord:
    """Continue a study from the store, or from its record, which is first put into the store.

    Args:
        name: the name of the study, or a file that `StudyRecord.save` wrote (any name that ends in .json or .json.gz).
        store, workers, ray, cpus_per_worker, options: as in `run_study`.

    Raises:
        TuningError: there is no such study, or the store cannot be used.
    """
    workers, how = _workers(workers, ray), Work(**options)
    if is_record_file(name):
        name = _restored(name, store)
    if ray is not None:
        count = None if workers == 1 else workers
        work_on_ray(name, store, how, address=ray, num_workers=count, cpus_per_worker=cpus_per_worker)
    elif workers > 1:
        work_in_processes(name, store, how, num_workers=workers)
    else:
        _work_here(name, store, how)
    return load_record(name, store)


def _restored(file: str, store: str | Path) -> str:
    """Put the study of a record file into the store, unless it is there already; returns its name."""
    record, place = load_record(file), Store(store)
    try:
        if record.name in place.study_names():
            place.add_study(record.name, [each.arm for each in record.arms])  # refuses another one of that name
        else:
            restore_study(record, place)
    finally:
        place.close()
    return record.name


def _work_here(name: str, store: str | Path, how: Work) -> None:
    with opened(store) as place:
        work_on_stages(place, name, how)


def record_to_json(record: StudyRecord) -> dict[str, Any]:
    """The results of a study, for a program to read."""
    return {"study": record.name, "is_complete": record.is_complete} | record.to_json()
