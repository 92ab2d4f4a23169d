"""The Gaussian process against its slow twin, and what it learns (C1)."""

import math

import numpy as np
import pytest
import torch

from rnnlab.tuning.acquisition import Acquisition, log_expected_improvement, log_feasibility, log_improvement
from rnnlab.tuning.encoding import Encoding
from rnnlab.tuning.fitting import OTHERS, Data, fit, log_likelihood, log_posterior
from rnnlab.tuning.gaussian_process import Followed, GaussianProcess
from rnnlab.tuning.kernel import Kernel
from rnnlab.tuning.outputs import standardised
from rnnlab.tuning.polishing import polished
from rnnlab.tuning.space import Category, Float, Integer, SearchSpace
from tests.tuning import oracle

# rounding in squared distances, which are differences of products, and in solves of well conditioned matrices
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
GROUPS, NUMERIC = np.array([0, 1, 2, 2, 3]), np.array([0, 1, 4])


def data(num_points: int = 12, seed: int = 0) -> Data:
    generator = np.random.default_rng(seed)
    features = torch.from_numpy(generator.random((num_points, len(GROUPS))))
    return Data(features, torch.from_numpy(generator.standard_normal(num_points)), GROUPS, NUMERIC)


def kernel(seed: int = 1) -> Kernel:
    parameters = 0.5 * np.random.default_rng(seed).standard_normal(4 + len(OTHERS))
    parameters[-1] = -4.0
    return data().kernel(parameters)


def process(seed: int = 0) -> GaussianProcess:
    given = data(seed=seed)
    return GaussianProcess(kernel(), given.features, given.values)


def rows(count: int, seed: int = 9) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, len(GROUPS))))


def differences(function, at: torch.Tensor, step: float = 1e-6) -> np.ndarray:
    """Central differences of values [q] by features [q, columns]."""
    found = []
    for column in range(at.shape[1]):
        moved = torch.zeros_like(at)
        moved[:, column] = step
        found.append((function(at + moved) - function(at - moved)) / (2 * step))
    return torch.stack(found, 1).numpy()


def test_posterior_equals_the_dense_solution() -> None:
    given, at = data(), rows(7)
    found = process().posterior(at)
    mean, variance = oracle.posterior(kernel(), given.features.numpy(), given.values.numpy(), at.numpy())
    np.testing.assert_allclose(found.mean, mean, **CLOSE)
    np.testing.assert_allclose(found.variance, variance, **CLOSE)
    np.testing.assert_allclose(process().mean(at), mean, **CLOSE)


def test_beliefs_equal_observing_the_mean() -> None:
    """Row by row added to the factor: the same as a new process that observed its own mean there."""
    given, at, believed, ours = data(), rows(7), rows(5, seed=2), process()
    features, values = given.features.numpy(), given.values.numpy()
    for point in believed:
        ours.believe(point)
        mean, _ = oracle.posterior(kernel(), features, values, point[None].numpy())
        features, values = np.vstack([features, point[None]]), np.append(values, mean)
        found = ours.posterior(at)
        mean, variance = oracle.posterior(kernel(), features, values, at.numpy())
        np.testing.assert_allclose(found.mean, mean, **CLOSE)
        np.testing.assert_allclose(found.variance, variance, **CLOSE)


def test_followed_points_equal_the_posterior_after_each_belief() -> None:
    ours, at = process(), rows(7)
    ours.believe(rows(1, seed=3)[0])
    followed = Followed(ours, at)
    for point in rows(5, seed=2):
        followed.believe(point, ours.believe(point))
        found = ours.posterior(at)
        torch.testing.assert_close(followed.mean, found.mean, **CLOSE)
        torch.testing.assert_close(followed.variance, found.variance, **CLOSE)


def test_believing_a_point_twice_stays_finite() -> None:
    ours, point = process(), rows(1)[0]
    for _ in range(20):
        row = ours.believe(point)
        assert math.isfinite(float(row.sum()))
    assert 0 < float(ours.posterior(point[None]).variance) < kernel().noise


@pytest.mark.parametrize(
    "standard", [10.0, 3.0, 0.0, -0.999, -1.001, -5.0, -25.0, -38.5, -1e3, -9.9e3, -1.1e4, -1e6, -1e8]
)
def test_log_improvement_is_exact_far_into_the_tail(standard: float) -> None:
    found = [float(each) for each in log_improvement(torch.tensor([standard], dtype=torch.float64))]
    value, slope, density = oracle.log_improvement(standard)
    assert found[0] == pytest.approx(value, rel=1e-10)
    assert found[1:] == pytest.approx([slope, density], rel=1e-7)


def test_log_expected_improvement_is_that_of_samples() -> None:
    samples = 0.3 + 0.7 * np.random.default_rng(0).standard_normal(1_000_000)
    expected = np.log(np.maximum(0.1 - samples, 0).mean())
    value, _, _ = log_expected_improvement(torch.tensor([0.3]), torch.tensor([0.49]), 0.1)
    assert float(value) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("mean", "variance"), [(1.0, 0.5), (-1.0, 0.5), (-8.0, 0.04), (6.0, 0.3)])
def test_log_feasibility_is_exact(mean: float, variance: float) -> None:
    value, _, _ = log_feasibility(*(torch.tensor([each], dtype=torch.float64) for each in (mean, variance)))
    assert float(value) == pytest.approx(oracle.log_feasibility(mean, variance), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("has_limits", [False, True])
@pytest.mark.parametrize("best", [0.5, -30.0])  # the second is deep in the tail
def test_gradients_of_the_acquisition_equal_differences(has_limits: bool, best: float) -> None:
    given = data()
    limits = GaussianProcess(kernel(4), given.features, given.values.sign()) if has_limits else None
    acquisition = Acquisition(process(), limits, best)
    for point in rows(3, seed=5):
        acquisition.believe(point)
    at = rows(6)
    value, gradient = acquisition.gradients(at)
    torch.testing.assert_close(value, acquisition.values(at), **CLOSE)
    np.testing.assert_allclose(gradient.numpy(), differences(acquisition.values, at), rtol=1e-5, atol=1e-5)


def test_watched_values_equal_values() -> None:
    given, at = data(), rows(6)
    acquisition = Acquisition(process(), GaussianProcess(kernel(4), given.features, given.values.sign()), 0.0)
    watched = acquisition.watch(at)
    for point in rows(3, seed=5):
        watched.believe(point, acquisition.believe(point))
        torch.testing.assert_close(watched.values(), acquisition.values(at), **CLOSE)


def test_a_believed_mean_is_what_later_points_must_beat() -> None:
    ours = process()
    points = rows(50, seed=6)
    lowest = points[int(ours.mean(points).argmin())]
    acquisition = Acquisition(ours, None, 10.0)
    acquisition.believe(lowest)
    acquisition.believe(points[0])  # higher, so it changes nothing
    posterior, best = ours.posterior(rows(6)), float(ours.mean(lowest[None]))
    expected, _, _ = log_expected_improvement(posterior.mean, posterior.variance, best)
    torch.testing.assert_close(acquisition.values(rows(6)), expected, **CLOSE)


def test_likelihood_equals_the_dense_one() -> None:
    given = data()
    expected = oracle.log_likelihood(kernel(), given.features.numpy(), given.values.numpy())
    assert log_likelihood(kernel(), given)[0] == pytest.approx(expected, rel=1e-10)


def test_gradient_of_the_fit_equals_differences() -> None:
    given, at = data(), 0.5 * np.random.default_rng(3).standard_normal(4 + len(OTHERS))
    _, gradient = log_posterior(at, given)
    for index in range(len(at)):
        step = 1e-6 * (np.arange(len(at)) == index)
        slope = (log_posterior(at + step, given)[0] - log_posterior(at - step, given)[0]) / 2e-6
        assert gradient[index] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_fit_finds_what_matters_and_how_noisy_it_is() -> None:
    generator = np.random.default_rng(0)
    features = generator.random((150, 6))
    values = np.sin(9 * features[:, 1]) + 0.1 * generator.standard_normal(150)
    found = fit(Data(torch.from_numpy(features), torch.from_numpy(standardised(values)), np.arange(6), np.arange(6)))
    lengths = found.length_scales.numpy()
    assert 3 * lengths[1] < np.delete(lengths, 1).min()
    assert found.noise * values.var() == pytest.approx(0.01, rel=0.5)


def test_fit_to_many_data_is_nearly_the_whole_fit(monkeypatch) -> None:
    """After 512 points a part is fitted first, and a few steps with all must do."""
    generator = np.random.default_rng(0)
    features = generator.random((600, 3))
    values = standardised(np.sin(5 * features[:, 0]) + features[:, 1] ** 2 + 0.05 * generator.standard_normal(600))
    given = Data(torch.from_numpy(features), torch.from_numpy(values), np.arange(3), np.arange(3))
    quick = fit(given)
    monkeypatch.setattr("rnnlab.tuning.fitting._NUM_PART", 1000)
    whole = fit(given)
    assert log_likelihood(quick, given)[0] > log_likelihood(whole, given)[0] - 2.0


def test_heavy_tails_keep_order_and_leave_room() -> None:
    values = np.concatenate([np.linspace(0, 1, 50), [10, 1e3, 1e8]])
    found = standardised(values)
    assert np.all(np.diff(found) > 0)
    assert found[49] - found[0] > 0.5  # the plain way leaves 1e-7
    np.testing.assert_allclose([found.mean(), found.std()], [0, 1], atol=1e-12)
    assert not standardised(np.ones(5)).any()
    assert standardised(np.array([])).shape == (0,)


MIXED = SearchSpace(
    [
        Category("optimiser", ("sgd", "momentum", "adam")),
        Float("learning_rate", 1e-4, 1e-1, "log"),
        Float("momentum", 0.731, 0.9991, "logit", when={"optimiser": ("momentum", "adam")}),
        Integer("steps", 1, 6),
        Integer("samples", 1, 1000, "log"),
        Category("clip", (False, True)),
        Float("clip_value", 1, 100, "log", when={"clip": (True,), "optimiser": ("sgd", "adam")}),
    ]
)


NESTED = SearchSpace(
    [
        Category("a", (False, True)),
        Integer("b", 1, 3, when={"a": (True,)}),  # inactive it stands where 2 does
        Float("c", 0, 1, when={"b": (2, 3)}),
    ]
)


@pytest.mark.parametrize("space", [MIXED, NESTED])
def test_encoding_gives_points_back(space: SearchSpace) -> None:
    generator, encoding = np.random.default_rng(0), Encoding(space)
    points = [space.sample(generator) for _ in range(200)]
    positions = encoding.positions(points)
    np.testing.assert_allclose(encoding.snapped(positions), positions, atol=1e-12)
    for point, row in zip(points, positions, strict=True):
        back = encoding.point(row)
        assert back == {name: pytest.approx(value) for name, value in point.items()}
    drawn = generator.random((200, len(space)))
    snapped = encoding.snapped(drawn)
    np.testing.assert_allclose(snapped, encoding.positions([encoding.point(row) for row in drawn]), atol=1e-12)
    assert [list(row) for row in encoding.active(snapped)] == [
        [name in encoding.point(row) for name in space.names] for row in drawn
    ]


def test_categories_are_a_hamming_distance_apart_and_inactive_numbers_do_not_count() -> None:
    encoding = Encoding(MIXED)
    base = {"optimiser": "adam", "learning_rate": 0.01, "momentum": 0.9, "steps": 3, "samples": 10, "clip": False}
    points = [base, base | {"optimiser": "momentum"}, {**base, "clip": True, "clip_value": 3.0}]
    features = encoding.features(encoding.positions(points))
    of_group = (encoding.groups == 0).nonzero()[0]
    assert ((features[0] - features[1])[of_group] ** 2).sum() == pytest.approx(1.0)
    assert set(encoding.groups) == set(range(len(MIXED) + 2))  # two conditions
    numbers = features[:, encoding.numeric_columns]
    assert numbers[0, -1] == 0.5  # the inactive clip_value
    assert features[0, -1] == 0.0
    assert features[2, -1] == 1.0


def test_polishing_climbs_inside_its_box_and_leaves_categories_alone(monkeypatch) -> None:
    generator, encoding = np.random.default_rng(0), Encoding(MIXED)
    points = [MIXED.sample(generator) for _ in range(30)]
    features = torch.from_numpy(encoding.features(encoding.positions(points)))
    values = torch.from_numpy(generator.standard_normal(30))
    found = fit(Data(features, values, encoding.groups, encoding.numeric_columns))
    acquisition = Acquisition(GaussianProcess(found, features, values), None, float(values.min()))
    start = encoding.snapped(generator.random((5, len(MIXED))))
    box = (np.full(len(MIXED), 0.2), np.full(len(MIXED), 0.9))
    start = np.where(encoding.numeric & encoding.active(start), encoding.snapped(start.clip(*box)), start)
    tried: list[torch.Tensor] = []
    gradients = acquisition.gradients
    monkeypatch.setattr(
        acquisition, "gradients", lambda features: tried.append(features.clone()) or gradients(features)
    )
    moved = polished(acquisition, encoding, start, box, 20)
    is_number, is_active = encoding.numeric, encoding.active(start)
    for features in tried:
        assert not (features[:, encoding.numeric_columns].numpy() != 0.5)[~is_active[:, is_number]].any()
    np.testing.assert_allclose(moved, encoding.snapped(moved), atol=1e-12)  # whole numbers are whole
    before, after = (acquisition.values(torch.from_numpy(encoding.features(each))) for each in (start, moved))
    assert float(after.sum()) > float(before.sum()) + 0.1
    assert not (moved != start)[:, ~encoding.numeric].any()
    assert not (moved != start)[~encoding.active(start)].any()
    column = MIXED.names.index("learning_rate")
    assert 0.2 <= moved[:, column].min() <= moved[:, column].max() <= 0.9
