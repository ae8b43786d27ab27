"""Compiles a C++ file into a library of operators: build.py SOURCE LIBRARY."""

import subprocess
import sys

from oneflow.frontend import sysconfig

source, library = sys.argv[1:]
flags = [*sysconfig.get_compile_flags(), *sysconfig.get_link_flags()]
subprocess.run(["g++", "-std=c++11", "-fPIC", "-shared", source, "-o", library, *flags], check=True)
