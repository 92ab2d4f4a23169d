"""Data files: found packed or not, in subfolders or flat; what is wrong with one is one line and leaves no trace."""

import gzip
import hashlib
import json
import lzma
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from rnnlab.errors import TaskError
from rnnlab.tasks.data import add_folder, contents, list_data
from rnnlab.tasks.data_catalogue import DATA_SETS, DataFile, DataSet
from rnnlab.tasks.data_folders import configuration_file, data_folders, remembered_folders
from rnnlab.tasks.registry import TASKS

POEM = b"the owl and the pussycat went to sea\n" * 40  # 1,480 bytes
SONG = b"row row row your boat\n" * 30
WRITERS = {
    "": Path.write_bytes,
    ".gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    ".xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    ".zip": lambda path, content: write_zip(path, path.stem, content),
}


def write_zip(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)


def known(path: str, content: bytes, **further) -> DataFile:
    return DataFile(path, hashlib.sha256(content).hexdigest(), len(content), **further)


RHYMES = DataSet(
    name="rhymes",
    summary="two rhymes",
    files=(known("rhymes/poem.txt", POEM, also=("verse/owl.txt",)), known("rhymes/song.txt", SONG)),
    published="https://rhymes.example",
    terms="public domain",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch) -> Path:
    """A user without data and without configuration."""
    monkeypatch.delenv("RNNLAB_DATA", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with both files, packed and in their subfolder."""
    folder = tmp_path / "data"
    (folder / "rhymes").mkdir(parents=True)
    WRITERS[".gz"](folder / "rhymes" / "poem.txt.gz", POEM)
    WRITERS[".xz"](folder / "rhymes" / "song.txt.xz", SONG)
    return folder


def states(listing) -> list[str]:
    return [file.state for data_set in listing.data_sets for file in data_set.files]


@pytest.mark.parametrize("packing", WRITERS)
@pytest.mark.parametrize("place", ["rhymes/poem.txt", "poem.txt", "verse/owl.txt"])
def test_file_is_found_wherever_it_may_lie(tmp_path: Path, place: str, packing: str) -> None:
    path = tmp_path / f"{place}{packing}"
    path.parent.mkdir(exist_ok=True)
    WRITERS[packing](path, POEM)
    only_poem = replace(RHYMES, files=RHYMES.files[:1])
    assert contents(only_poem, [tmp_path]) == {"poem.txt": POEM}


def test_first_folder_that_has_the_file_counts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_bytes(POEM)
    assert states(list_data([RHYMES], [tmp_path, folder])) == ["present", "present"]
    poem, song = list_data([RHYMES], [tmp_path, folder]).data_sets[0].files
    assert (poem.path, song.path) == (tmp_path / "poem.txt", folder / "rhymes" / "song.txt.xz")


def test_folder_of_the_name_is_no_file(tmp_path: Path) -> None:
    """text8/text8 may lie flat as text8, where text8 may also be the subfolder."""
    (tmp_path / "poem.txt").mkdir()
    assert states(list_data([RHYMES], [tmp_path])) == ["missing", "missing"]


def damage(path: Path, how: str) -> None:
    packed = path.read_bytes()
    middle = len(packed) // 2
    changes = {
        "truncated": packed[:middle],
        "empty": b"",
        "altered": packed[:middle] + bytes([packed[middle] ^ 1]) + packed[middle + 1 :],
        "longer": packed + b"!",
    }
    path.write_bytes(changes[how])


# what follows the end of an .xz or .zip file is no part of its content
@pytest.mark.parametrize(
    ("packing", "how"),
    [(packing, how) for packing in WRITERS for how in ("truncated", "empty", "altered")]
    + [("", "longer"), (".gz", "longer")],
)
def test_damaged_file_is_one_line_and_leaves_no_trace(tmp_path: Path, home: Path, packing: str, how: str) -> None:
    WRITERS[packing](tmp_path / f"song.txt{packing}", SONG)
    WRITERS[packing](tmp_path / f"poem.txt{packing}", POEM)
    assert states(list_data([RHYMES], [tmp_path])) == ["present", "present"]
    damage(tmp_path / f"poem.txt{packing}", how)
    with pytest.raises(TaskError) as caught:
        contents(RHYMES, [tmp_path])
    assert str(tmp_path / f"poem.txt{packing}") in str(caught.value)
    assert "copy it again" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert states(list_data([RHYMES], [tmp_path])) == ["damaged", "present"]
    with pytest.raises(TaskError, match="copy it again"):
        add_folder(tmp_path, [RHYMES])
    assert not home.exists()
    WRITERS[packing](tmp_path / f"poem.txt{packing}", POEM)
    assert contents(RHYMES, [tmp_path])["poem.txt"] == POEM


def test_other_content_is_named_with_both_checksums(folder: Path) -> None:
    other = POEM.replace(b"sea", b"bee")
    (folder / "rhymes" / "poem.txt").write_bytes(other)
    with pytest.raises(TaskError) as caught:
        contents(RHYMES, [folder])
    assert hashlib.sha256(other).hexdigest() in str(caught.value)
    assert RHYMES.files[0].sha256 in str(caught.value)


def test_packed_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "poem.txt.gz").write_bytes(gzip.compress(bytes(50_000_000)))
    (tmp_path / "song.txt").write_bytes(SONG)
    tracemalloc.start()
    with pytest.raises(TaskError, match="it holds more than 1,480 bytes, not 1,480"):
        contents(RHYMES, [tmp_path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_zip_without_the_file_is_refused(tmp_path: Path) -> None:
    write_zip(tmp_path / "poem.txt.zip", "prose.txt", POEM)
    (tmp_path / "song.txt").write_bytes(SONG)
    with pytest.raises(TaskError, match=r"poem\.txt\.zip is damaged .*it holds no poem\.txt"):
        contents(RHYMES, [tmp_path])


def test_missing_file_says_where_it_is_published_and_what_to_do(folder: Path) -> None:
    (folder / "rhymes" / "song.txt.xz").unlink()
    with pytest.raises(TaskError) as caught:
        contents(RHYMES, [folder])
    message = str(caught.value)
    for part in ("rhymes/song.txt missing", str(folder), "https://rhymes.example", "rnnlab data add", "RNNLAB_DATA"):
        assert part in message
    assert "poem.txt" not in message
    with pytest.raises(TaskError, match="no data folder is known"):
        contents(RHYMES)


def test_files_that_serve_instead_are_read_where_the_first_choice_is_absent(tmp_path: Path) -> None:
    either = replace(RHYMES, files=RHYMES.files[:1], instead=RHYMES.files[1:])
    with pytest.raises(TaskError, match=r"rhymes/poem\.txt \(or rhymes/song\.txt\) missing"):
        contents(either, [tmp_path])
    (tmp_path / "song.txt").write_bytes(SONG)
    assert contents(either, [tmp_path]) == {"song.txt": SONG}
    (tmp_path / "poem.txt").write_bytes(POEM)
    assert contents(either, [tmp_path]) == {"poem.txt": POEM}
    assert "or          rhymes/song.txt" in str(list_data([either], []))


def test_listing_without_a_folder_says_how_to_add_one() -> None:
    assert str(list_data([RHYMES])).startswith("no data folder is known: `rnnlab data add FOLDER`, or set RNNLAB_DATA")


def test_variable_names_the_first_folder(folder: Path, tmp_path: Path, monkeypatch) -> None:
    add_folder(folder, [RHYMES])
    assert data_folders() == (folder,)
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    assert data_folders() == (tmp_path, folder)
    monkeypatch.setenv("RNNLAB_DATA", str(folder))
    assert data_folders() == (folder,)
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(TaskError, match=r"RNNLAB_DATA is .*nowhere, and there is no such folder"):
        data_folders()


def test_added_folder_is_remembered_once(folder: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "poem.txt").write_bytes(POEM)
    monkeypatch.chdir(tmp_path)
    first = add_folder("data", [RHYMES])
    add_folder(folder, [RHYMES])
    second = add_folder(tmp_path, [RHYMES])
    assert remembered_folders() == (folder, tmp_path)
    assert json.loads(configuration_file().read_text()) == {"folders": [str(folder), str(tmp_path)]}
    assert states(first) == ["present", "present"]
    assert states(second) == ["present", "missing"]
    assert contents(RHYMES) == {"poem.txt": POEM, "song.txt": SONG}
    assert [path.name for path in configuration_file().parent.iterdir()] == ["data.json"]


def test_folder_without_known_files_is_not_remembered(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no file that rnnlab knows"):
        add_folder(tmp_path, [RHYMES])
    with pytest.raises(TaskError, match="nowhere is not a folder"):
        add_folder(tmp_path / "nowhere", [RHYMES])
    assert remembered_folders() == ()


def test_folder_that_is_gone_is_said(folder: Path) -> None:
    add_folder(folder, [RHYMES])
    folder.rename(folder.with_name("moved"))
    with pytest.raises(TaskError, match=r"data \(not there now\)"):
        contents(RHYMES)
    assert "(not there now)" in str(list_data([RHYMES]))


@pytest.mark.parametrize("text", ["{", "[]", '{"folders": "here"}', '{"folders": [1]}'])
def test_garbled_configuration_is_one_line(home: Path, text: str) -> None:
    configuration_file().parent.mkdir(parents=True)
    configuration_file().write_text(text)
    with pytest.raises(TaskError, match=r"data\.json .*remove it and add the data folders again"):
        data_folders()


def test_relative_configuration_home_is_ignored(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "configuration")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert configuration_file() == tmp_path / ".config" / "rnnlab" / "data.json"


def test_listing_says_what_is_there_and_what_is_missing(folder: Path) -> None:
    (folder / "rhymes" / "song.txt.xz").unlink()
    absent = replace(RHYMES, name="tales", files=(known("tales/frog.txt", b"frog"),))
    listing = list_data([RHYMES, absent], [folder])
    assert str(listing) == "\n".join(
        [
            f"looked in {folder}; files may be packed as .gz, .xz, .zip",
            "",
            "rhymes              incomplete  two rhymes",
            f"  present     {folder}/rhymes/poem.txt.gz",
            "  missing     rhymes/song.txt",
            "  published   https://rhymes.example",
            "  terms       public domain",
            "",
            "tales               missing     two rhymes",
            "  needs       tales/frog.txt",
            "  published   https://rhymes.example",
            "  terms       public domain",
        ]
    )
    assert listing.to_json()["data_sets"][0]["files"][1] == {
        "file": "rhymes/song.txt",
        "sha256": hashlib.sha256(SONG).hexdigest(),
        "state": "missing",
        "path": None,
        "problem": None,
    }
    (folder / "rhymes" / "song.txt").write_bytes(SONG)
    assert str(list_data([RHYMES], [folder])).startswith(f"looked in {folder}\n")
    assert [each["is_complete"] for each in json.loads(json.dumps(listing.to_json()))["data_sets"]] == [False, False]


def test_listing_names_the_tasks_of_a_data_set() -> None:
    shown = {state.data_set.name: state for state in list_data(folders=[]).data_sets}
    assert "\n  tasks       ptb-characters, ptb-words\n" in str(shown["penn-treebank"])
    assert shown["mnist"].to_json()["tasks"] == ["mnist", "permuted-mnist"]
    assert {task for state in shown.values() for task in state.tasks} == {
        name for name, entry in TASKS.items() if entry.data_set is not None
    }


def test_every_data_set_has_checksums_a_publisher_and_terms() -> None:
    files = [file for data_set in DATA_SETS.values() for file in (*data_set.files, *data_set.instead)]
    assert all(name == data_set.name for name, data_set in DATA_SETS.items())
    assert len({file.sha256 for file in files}) == len({file.path for file in files}) == len(files)
    for data_set in DATA_SETS.values():
        assert data_set.published
        assert data_set.terms
    for file in files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.num_bytes > 0
