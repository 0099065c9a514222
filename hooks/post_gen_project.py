"""Remove the files of options that were not chosen, and the folders that are empty then.

Only files that the template has just written are named, so that nothing of the user's own goes when
a project is made over an existing folder.
"""

import json
from pathlib import Path

for name in json.loads(r"""<< cookiecutter | unchosen | tojson >>"""):
    file = Path(name)
    file.unlink()
    for folder in file.parents[:-1]:
        if not any(folder.iterdir()):
            folder.rmdir()
