"""What stands on the interpreter's symbolic stack instead of real objects, and rules for calls of known objects.

Read `base` first, then `constant`, `tensor`, `containers`, `objects`, `functions`; `wrap` says which kind of value
stands for an object from outside, `callables` how a call finds its rule. Every other file is one more kind of object or
one more family of functions, for which it registers its rules (`@rule(fn)`):

numbers and texts: `computed`, `data_floats`, `sizes`, `numpy_scalars`, `texts`, `random_draws`
tensors: `indexing`, `tensor_data`, `tensor_hooks`, `tensor_literals`, `tensor_subclasses`, `new_leaves`, `arrays`,
    `torch_functions`
modules and torch: `nn_module`, `functional_calls`, `optimizers`, `transforms`, `inner_gradients`, `custom_functions`,
    `checkpointing`, `control_flow`, `higher_order`, `contexts`, `mode_blocks`, `default_devices`, `profiler_ranges`
containers: `container_methods`, `subclasses`, `named_tuples`, `deques`, `namespaces`, `proxies`, `thread_locals`,
    `trees`, `hashing`, `copying`
iteration: `iterators`, `real_iterators`, `generators`, `itertools_rules`, `tees`, `heaps`
classes: `classes`, `new_classes`, `enums`, `supers`, `annotations`, `introspection`, `identities`, `protocols`
functions: `builtins`, `operator_functions`, `getters`, `wrappers`, `signatures`, `caches`, `lazy_properties`,
    `foreign_methods`, `known_results`
exceptions: `exceptions`
"""
