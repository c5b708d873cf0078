"""Five practice sessions: `python -m minicompile.lessons.backends`, then `capture`, `breaks`, `codegen`, `benchmark`.

Each has a task to do by hand first, then does it, prints what was seen, and ends with a question and its answer.
"""
