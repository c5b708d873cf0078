"""What is there when compiled code is built and run. Start with `cpp_build`, `launch`, `autograd`.

Building: `cache` (the folder on disk), `identity` (its keys), `compiler`, `cpu`, `openmp`, `cpp_build`.
Running: `written` (functions from text), `launch` and `launch_cuda` (a kernel), `runs` (several), `products` (ATen's).
Memory: `recycled`, `pages`. Recordings on a GPU: `cuda_graphs`, `cuda_graph_memory`, `cuda_graph_nodes`.
Gradients: `autograd` (a pair as one node), `training_call`, `one_by_one`, `double_backward`, `chained` (sections).
Beside them: `compiled_bodies`, `facts`, `profiled`, `collector`.
"""
