"""Stands in for `devtools_testutils` of Azure's SDK, which is not on PyPI.

The original creates resources in Azure, and records what the tests send.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from azure.core.credentials import AccessToken

Arguments: TypeAlias = dict[str, Any]
Test: TypeAlias = Callable[..., Any]


class AzureMgmtRecordedTestCase:
    """The base class of the tests."""


def preparer(create: Callable[[Arguments], Arguments]) -> Callable[..., Callable[[Test], Test]]:
    """Return a preparer: called with options, it returns a decorator of a test.

    The decorator adds the keyword arguments that `create` returns to those that the test already
    has, which are the argument of `create`. The options have no effect.
    """

    def configure(**_options: object) -> Callable[[Test], Test]:
        def decorate(test: Test) -> Test:
            def run(case: object, **arguments: Any) -> Any:
                return test(case, **arguments, **create(arguments))

            return functools.update_wrapper(run, test)

        return decorate

    return configure


RandomNameResourceGroupPreparer = preparer(lambda _: {})


class _Credential:
    """A credential whose token the server for tests accepts."""

    def get_token(self, *_scopes: str, **_options: object) -> AccessToken:
        return AccessToken("token", int(time.time()) + 3_600)


def get_credential(**_options: object) -> _Credential:
    """Return a credential that does not need Azure."""
    return _Credential()
