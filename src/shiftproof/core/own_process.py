"""Start a Python process that communicates through its standard input and output.

It runs its own program instead of a copy of the caller's, so a script that starts one needs no
`if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import subprocess
import sys


def start_process(program: str, *, new_session: bool = False) -> subprocess.Popen[bytes]:
    """Start Python with the source text of a program, which can import whatever the caller can.

    With `new_session`, Ctrl-C in the terminal does not reach the process.
    """
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=new_session,
    )
