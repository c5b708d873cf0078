"""What looks at the stages from outside; nothing here is imported before somebody asks to see something.

`explain`, `compare`, `explore` and `trace` are what a user calls, with `*_text`, `*_html`, `*_page`, `*_data` and
`*_lines` for what they show and `stacks`, `inductor_watch`, `inductor_text`, `cost`, `timing`, `accuracy` for what they
know. `debug`, `scripts` and `function_script` write stages as files that run. `verify=True` is `captured`, `outcome`,
`bisect`, `bisect_training`. `recorder` watches the interpreter; `target` and `cubins` serve the command line.
"""
