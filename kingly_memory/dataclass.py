"""What `dataclasses` and `typing.NamedTuple` give, without their price at the start of a process.

The standard decorator writes and compiles the source of each method: 0.6 ms a class, of which opening a router needs
over a hundred, and 6 ms for the modules that do it. A named tuple takes 0.1 ms, half of it for its annotations, and a
command needs eighty. Here all classes share methods that look the fields up, but for `__init__` and `__new__`, which
are compiled when a class has its first instance. Type checkers see the standard ones, and the functions of
`dataclasses` take the instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Field", "NamedTuple", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
    from typing import NamedTuple
else:
    from collections import _tuplegetter

    _MISSING = object()

    class Field:
        """What a class says of one of its fields."""

        def __init__(self, *, default=_MISSING, default_factory=None, repr=True, compare=True, metadata=None):
            self.default = default
            self.default_factory = default_factory
            self.repr = repr
            self.compare = compare
            self.metadata = metadata or {}

    field = Field

    def fields(value):
        """The fields of a class or an instance, in order, also of the standard library's."""
        by_name = getattr(value, "__fields_by_name__", None) or value.__dataclass_fields__
        return tuple(by_name.values())

    def is_dataclass(value):
        """Also of the standard library's."""
        return hasattr(value, "__fields_by_name__") or hasattr(value, "__dataclass_fields__")

    def asdict(instance):
        """All of an instance as dicts, those within it too."""
        import dataclasses

        return dataclasses.asdict(instance)

    def replace(instance, **changes):
        """A copy of the instance with those changes, checked as a new one is."""
        by_name, values = instance.__fields_by_name__, instance.__dict__
        if len(values) > len(by_name):  # what a cached property has kept is no field
            values = {name: values[name] for name in by_name}
        return type(instance)(**values | changes)

    def dataclass(cls=None, *, frozen=False, eq=True, kw_only=False, slots=False):
        """As `dataclasses.dataclass`. `slots` is for type checkers: instances have a `__dict__` all the same."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, kw_only=kw_only)
        by_name = dict(getattr(cls, "__fields_by_name__", {}))
        for name, kind in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063  # `inspect` is dear
            if "ClassVar" in str(kind):
                continue
            default = cls.__dict__.get(name, _MISSING)
            by_name[name] = spec = default if isinstance(default, Field) else Field(default=default)
            spec.name, spec.type, spec.is_named = name, kind, kw_only
            if spec.default is not _MISSING:
                setattr(cls, name, spec.default)
            elif name in cls.__dict__:
                delattr(cls, name)
        cls.__fields_by_name__ = by_name
        for name in ("__dataclass_fields__", "__signature__"):
            setattr(cls, name, _Standard(name))
        cls.__match_args__ = tuple(name for name, spec in by_name.items() if not spec.is_named)
        methods = {"__init__": _init_of(cls), "__repr__": _repr}
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if eq:
            methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        for name, method in methods.items():
            if name not in cls.__dict__ or (name == "__hash__" and cls.__hash__ is None):
                setattr(cls, name, method)
        return cls

    def _init_of(cls):
        def __init__(self, *given, **named):  # noqa: N807
            cls.__init__ = made = _compiled_init(cls)
            made(self, *given, **named)

        return __init__

    def _compiled_init(cls):
        """The method that takes the fields as arguments. Compiled for the first instance: most classes have none."""
        taken, values, names = {False: [], True: []}, [], {"_set": object.__setattr__, "_MISSING": _MISSING}
        for name, spec in cls.__fields_by_name__.items():
            has_none = spec.default is _MISSING and not spec.default_factory
            names |= {f"_usual_{name}": spec.default, f"_make_{name}": spec.default_factory}
            taken[spec.is_named].append(name if has_none else f"{name}=_usual_{name}")
            made = f"_make_{name}() if {name} is _MISSING else {name}" if spec.default_factory else name
            values.append(f"{name!r}: {made}")
        arguments = ", ".join(["self", *taken[False], *["*", *taken[True]] * bool(taken[True])])
        check = "; self.__post_init__()" if hasattr(cls, "__post_init__") else ""
        exec(f"def __init__({arguments}): _set(self, '__dict__', {{{', '.join(values)}}}){check}", names)  # noqa: S102
        return names["__init__"]

    def _repr(self):
        shown = (f"{name}={getattr(self, name)!r}" for name, spec in self.__fields_by_name__.items() if spec.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _compared(self):
        return tuple(getattr(self, name) for name, spec in self.__fields_by_name__.items() if spec.compare)

    def _eq(self, other):
        return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented

    def _hash(self):
        return hash(_compared(self))

    def _refuse(self, name, *_):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")

    class _Standard:
        """What `dataclasses` and `inspect` look for in a class, made by the standard decorator when they do."""

        def __init__(self, name):
            self.name = name

        def __get__(self, instance, cls):
            import dataclasses
            import inspect

            def standard(spec):
                defaults = {} if spec.default is _MISSING else {"default": spec.default}
                defaults |= {"default_factory": spec.default_factory} if spec.default_factory else {}
                is_named = {"kw_only": spec.is_named}
                return dataclasses.field(
                    **defaults, **is_named, repr=spec.repr, compare=spec.compare, metadata=spec.metadata
                )

            declared = [(name, spec.type, standard(spec)) for name, spec in cls.__fields_by_name__.items()]
            made = dataclasses.make_dataclass(cls.__name__, declared)
            cls.__dataclass_fields__ = made.__dataclass_fields__
            cls.__signature__ = inspect.signature(made)
            return cls.__dict__[self.name]

    class _Named(tuple):
        """What all named tuples share."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no fields {list(changes)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            shown = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(shown)})"

        def __getnewargs__(self):
            return tuple(self)

    class _NamedTupleMaker(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            names = tuple(body.get("__annotations__", ()))
            usual = {name: body[name] for name in names if name in body}

            def __new__(cls, *given, **named):  # noqa: N807
                made.__new__ = new = _compiled_new(names, usual)
                return new(cls, *given, **named)

            body |= {name: _tuplegetter(at, None) for at, name in enumerate(names)}
            body |= {"__new__": __new__, "__slots__": (), "__match_args__": names}
            body |= {"_fields": names, "_field_defaults": usual}
            made = type(name, (_Named,), body)
            return made

    class NamedTuple(metaclass=_NamedTupleMaker):
        """A base for classes that are tuples of their fields; it is none of theirs afterwards."""

    def _compiled_new(names, usual):
        arguments = "".join(f", {name}=_usual_{name}" if name in usual else f", {name}" for name in names)
        known = {"_new": tuple.__new__, **{f"_usual_{name}": value for name, value in usual.items()}}
        return eval(f"lambda _cls{arguments}: _new(_cls, ({''.join(f'{name}, ' for name in names)}))", known)  # noqa: S307
