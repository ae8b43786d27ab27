"""A plugin for mypy: the slots of a record are functions, not methods.

    [tool.mypy]
    plugins = ["oneflow.dialect.mypy_plugin"]

The first parameter of a function in the body of a class under `@operator(..)` is a call, a builder or an array. mypy
expects it to be the object of the class unless the function is static, which this plugin says it is.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import Decorator, FuncDef
from mypy.plugin import ClassDefContext, Plugin

#: The decorators of classes that are records.
DECORATORS = ("oneflow.dialect.record.operator", "oneflow.frontend.operators.operator")


class RecordPlugin(Plugin):
    """Makes the slots of records static."""

    def get_class_decorator_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """The function that changes the classes under a decorator."""
        return _make_slots_static if fullname in DECORATORS else None


def _make_slots_static(context: ClassDefContext) -> None:
    for statement in context.cls.defs.body:
        function = statement.func if isinstance(statement, Decorator) else statement
        if isinstance(function, FuncDef):
            function.is_static = True


def plugin(version: str) -> type[Plugin]:
    """The plugin for a version of mypy."""
    return RecordPlugin
