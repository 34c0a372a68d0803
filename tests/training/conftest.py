"""Checkpoints of two epochs, for the tests of damaged ones."""

import shutil

import pytest

from tests.training.backups import Trained


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def copied(trained, tmp_path):
    directory = tmp_path / "copied"
    shutil.copytree(trained.directory, directory)
    return directory
