"""Optuna's tables, many trials at a time.

Optuna's own storage gives every attribute and every intermediate value of a trial a transaction of its own, and looks
for earlier ones before it adds any: about 30 ms a trial. Populations of small networks end faster than that. Here all
trials of a lot are added in one transaction, and ended in one, less than a millisecond each (`benchmarks/store.py`);
the rows are those that Optuna would have written.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from optuna.distributions import distribution_to_json
from optuna.storages._rdb.models import (
    StudyModel,
    TrialIntermediateValueModel,
    TrialModel,
    TrialParamModel,
    TrialUserAttributeModel,
    TrialValueModel,
)
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import and_, delete, func, insert, select, update
from sqlalchemy.orm import Session


class TrialRow(NamedTuple):
    """Where a trial is, and how it stands.

    Args:
        trial_id: Optuna's name for it.
        attribute: the value of a user attribute that was asked for.
        state: as Optuna has it.
        value: what was reached; None before its end, and where nothing was.
    """

    trial_id: int
    attribute: Any
    state: TrialState
    value: float | None


def read_rows(session: Session, study_id: int, attribute: str) -> list[TrialRow]:
    """Every trial of a study of Optuna's that has the attribute, in the order in which they were added."""
    is_asked = and_(TrialUserAttributeModel.trial_id == TrialModel.trial_id, TrialUserAttributeModel.key == attribute)
    query = (
        select(TrialModel.trial_id, TrialUserAttributeModel.value_json, TrialModel.state, TrialValueModel.value)
        .join(TrialUserAttributeModel, is_asked)
        .outerjoin(TrialValueModel, TrialValueModel.trial_id == TrialModel.trial_id)
        .where(TrialModel.study_id == study_id)
        .order_by(TrialModel.trial_id)
    )
    return [TrialRow(trial, json.loads(found), state, value) for trial, found, state, value in session.execute(query)]


def add_trials(session: Session, study_id: int, templates: Sequence[FrozenTrial]) -> None:
    """Add trials to a study of Optuna's, running or at their end, as `RDBStorage.create_new_trial` adds one."""
    # a change that changes nothing takes the lock, so that no other process numbers trials meanwhile
    session.execute(update(StudyModel).where(StudyModel.study_id == study_id).values(study_name=StudyModel.study_name))
    first = session.scalar(select(func.count()).where(TrialModel.study_id == study_id)) or 0
    trials: list[Any] = [  # Optuna's models do not say that their columns are numbers
        TrialModel(
            study_id=study_id,
            number=number,
            state=template.state,
            datetime_start=template.datetime_start,
            datetime_complete=template.datetime_complete,
        )
        for number, template in enumerate(templates, first)
    ]
    session.add_all(trials)
    session.flush()  # they have names now
    written = {trial.trial_id: template for trial, template in zip(trials, templates, strict=True)}
    parameters = [
        {
            "trial_id": trial,
            "param_name": name,
            "param_value": template.distributions[name].to_internal_repr(value),
            "distribution_json": distribution_to_json(template.distributions[name]),
        }
        for trial, template in written.items()
        for name, value in template.params.items()
    ]
    _insert(session, TrialParamModel, parameters)
    _write_ends(session, written)


def end_trials(session: Session, ends: Mapping[int, FrozenTrial]) -> None:
    """Give running trials, by Optuna's names, the state, value, attributes and intermediate values of a template.

    Trials that have ended already are left as they are.
    """
    is_meant = TrialModel.trial_id.in_(ends)
    session.execute(update(TrialModel).where(is_meant).values(number=TrialModel.number))  # takes the lock
    is_running = TrialModel.state == TrialState.RUNNING
    running: list[Any] = list(session.scalars(select(TrialModel).where(is_meant, is_running)))
    for trial in running:
        trial.state, trial.datetime_complete = ends[trial.trial_id].state, datetime.now()
    written = {trial.trial_id: ends[trial.trial_id] for trial in running}
    _delete_ends(session, written)
    _write_ends(session, written)


def _delete_ends(session: Session, written: Mapping[int, FrozenTrial]) -> None:
    """Delete what a worker left behind that wrote one attribute after another and never reached the state."""
    keys = {key for template in written.values() for key in template.user_attrs}
    model = TrialUserAttributeModel
    session.execute(delete(model).where(model.trial_id.in_(written), model.key.in_(keys)))
    session.execute(delete(TrialIntermediateValueModel).where(TrialIntermediateValueModel.trial_id.in_(written)))


def _write_ends(session: Session, written: Mapping[int, FrozenTrial]) -> None:
    """Attributes, values and intermediate values."""
    attributes = [
        {"trial_id": trial, "key": key, "value_json": json.dumps(value)}
        for trial, template in written.items()
        for key, value in template.user_attrs.items()
    ]
    values = [
        {"trial_id": trial, "objective": 0, "value": stored, "value_type": kind}
        for trial, template in written.items()
        if template.value is not None
        for stored, kind in [TrialValueModel.value_to_stored_repr(template.value)]
    ]
    intermediate = [
        {"trial_id": trial, "step": step, "intermediate_value": stored, "intermediate_value_type": kind}
        for trial, template in written.items()
        for step, value in template.intermediate_values.items()
        for stored, kind in [TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)]
    ]
    _insert(session, TrialUserAttributeModel, attributes)
    _insert(session, TrialValueModel, values)
    _insert(session, TrialIntermediateValueModel, intermediate)


def _insert(session: Session, model: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        session.execute(insert(model), rows)
