"""The frontend: from Python frames to FX graphs, guards and glue.

In the order in which a call meets the files: `hook` (or `binding`, where there is no hook) hands a frame to `segments`,
which look for an entry that fits; `translate` makes one: `bytecode` reads the code, `interpreter` and `handlers_*` run
it on `values`, `graph` collects torch calls, `side_effects` mutations, `tracer` holds what all share; `exits` and
`glue` write the entry. `breaks` says why a graph ended, `eager_tail` goes on where nothing else can.
"""
