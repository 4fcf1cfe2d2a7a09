"""Is the program itself: python -m securebench ARGUMENTS."""
import os
import sys

from . import program

os.execv(program(), ["securebench", *sys.argv[1:]])
