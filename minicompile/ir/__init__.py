"""The small IR, and what tracing has to know about operators beyond torch's fake tensors.

A graph: `types`, `symbols`, `graph`, `ops` with `scalar_op` and `special_ops` (the table), `verifier`, `printer` with
`eager_ops`, `reference` (what it means), `rewrite` (the walk that passes share), `dot`, `origins`.
Around its calls: `call_plan`, `called_operators`, `retyped`, `laid_out`, `philox`, `random_keys`.
Fake tensors, put right: `fake_strides`, `fake_checks`, `fake_versions`, `eager_refusals`.
"""
