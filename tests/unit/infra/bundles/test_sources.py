from pathlib import Path

import pytest

from infra.bundles.sources import function_sources
from infra.bundles.targets import PackagingError


@pytest.fixture
def tree(tmp_path):
    files = {
        "functions/__init__.py": "",
        "functions/worker/__init__.py": "",
        "functions/worker/handler.py": "from shared.turn.engine import Engine\nimport json\n",
        "functions/other/handler.py": "import shared.unused\n",
        "shared/__init__.py": "",
        "shared/turn/__init__.py": "",
        "shared/turn/engine.py": "def later():\n    from shared.adapters import store\n",
        "shared/adapters/__init__.py": "",
        "shared/adapters/store.py": "import boto3\n",
        "shared/adapters/other.py": "",
        "shared/adapters/lua/claim.lua": "return 1",
        "shared/unused.py": "",
        "services/gateway/composition.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_function_brings_what_it_imports_and_the_data_beside_it(tree):
    assert [str(path) for path in function_sources(tree, "worker")] == [
        "functions/__init__.py",
        "functions/worker/__init__.py",
        "functions/worker/handler.py",
        "shared/__init__.py",
        "shared/adapters/__init__.py",
        "shared/adapters/lua/claim.lua",
        "shared/adapters/store.py",
        "shared/turn/__init__.py",
        "shared/turn/engine.py",
    ]


def test_a_function_without_a_handler_is_an_error_in_words(tree):
    with pytest.raises(PackagingError, match=r"functions/ghost/handler\.py is missing"):
        function_sources(Path(tree), "ghost")
