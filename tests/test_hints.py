"""What somebody may have meant: the nearest name that is known, or where all names are."""

from rnnlab.hints import hint, nearest


def test_nearest_ignores_upper_and_lower_case() -> None:
    assert nearest("LSMT", ["gru", "Lstm"]) == "Lstm"
    assert nearest("lstmm", ["gru", "lstm"], least=0.95) is None
    assert nearest(3, ["gru", "lstm"]) is None


def test_hint_ends_an_error_about_a_name() -> None:
    known = {"trials": 1, "seeds": 2}
    assert hint("trails", known) == "did you mean 'trials'?"
    assert hint("xyz", known) == "there are trials, seeds"
    assert hint("xyz", ()) == "there are none"
    assert hint("trails", known, "see the docs") == "did you mean 'trials'? see the docs"
    assert hint("xyz", known, "see the docs") == "see the docs"
