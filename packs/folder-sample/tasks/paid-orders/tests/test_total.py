import os
import pathlib

WORKSPACE = pathlib.Path(os.environ["SECUREBENCH_WORKSPACE"])


def test_total():
    assert (WORKSPACE / "total.txt").read_text().strip() == "200"
