"""Writes the graphs of real models in dynrun's text form, without the recorder: dump_graph.py OUT_FOLDER [NAME...]

torch.export's pre-dispatch graph stands for what the recorder sees above autograd.
"""

import json
import os
import sys

import torch

DTYPES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8",
    torch.bool: "bool",
}
SCALAR_TYPE = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
               torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15}
MEMORY_FORMAT = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3}


def contiguous(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    return strides


def print_type(value):
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    sizes, strides = [int(s) for s in value.shape], [int(s) for s in value.stride()]
    text = f"{DTYPES[value.dtype]}[{', '.join(map(str, sizes))}]"
    return text if strides == contiguous(sizes) else text + "{" + ", ".join(map(str, strides)) + "}"


def print_argument(value, schema_type):
    kind = schema_type.str() if hasattr(schema_type, "str") else str(schema_type)
    if isinstance(value, (torch.fx.Node, _Named)):
        return "%" + value.name
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}.0" if kind in ("float", "Optional[float]") else str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, torch.dtype):
        return str(SCALAR_TYPE[value])
    if isinstance(value, torch.layout):
        return "0"
    if isinstance(value, torch.memory_format):
        return str(MEMORY_FORMAT[value])
    if isinstance(value, torch.device):
        return f'device("{value}")'
    if isinstance(value, (list, tuple)):
        items = ", ".join(print_argument(item, "") for item in value)
        if any(isinstance(item, (torch.fx.Node, _Named)) or item is None for item in value) or "Tensor" in kind:
            return f"[{items}]"
        if value and all(isinstance(item, bool) for item in value):
            return f"bool[{items}]"
        if any(isinstance(item, float) for item in value):
            return f"float[{items}]"
        return f"int[{items}]"
    raise ValueError(f"cannot print {value!r}")


def print_call(node, aliases):
    op, lines = node.target, []
    arguments = []
    for position, formal in enumerate(op._schema.arguments):
        if position < len(node.args) and not formal.kwarg_only:
            value = node.args[position]
        elif formal.name in node.kwargs:
            value = node.kwargs[formal.name]
        else:
            value = formal.default_value
        value = torch.fx.map_arg(value, lambda n: aliases.get(n, n)) if not isinstance(value, (dict,)) else value
        text = print_argument(value, formal.type)
        if str(formal.type) == "List[int]" and not text.startswith(("int[", "[")):
            text = f"int[{text}]"
        arguments.append(text)
    results = node.meta["val"]
    outputs = []
    returns = op._schema.returns
    if len(returns) == 1 and str(returns[0].type) == "List[Tensor]":
        outputs.append("[" + ", ".join(f"%{node.name}.{i}: {print_type(r)}" for i, r in enumerate(results)) + "]")
    elif len(returns) == 1:
        alias = returns[0].alias_info
        if alias is not None and alias.is_write:
            aliases[node] = aliases.get(node.args[0], node.args[0])
            outputs.append(f"%{aliases[node].name}")
        else:
            outputs.append(f"%{node.name}: {print_type(results)}")
    else:
        for i, result in enumerate(results):
            outputs.append("_" if result is None else f"%{node.name}.{i}: {print_type(result)}")
    name = op._schema.name + ("." + op._schema.overload_name if op._schema.overload_name else "")
    left = ", ".join(outputs) + " = " if outputs else ""
    return f"{left}{name}({', '.join(arguments)})"


def dump(model, args, kwargs=None):
    with torch.no_grad():
        program = torch.export.export(model, args, kwargs or {}, strict=False)
    return print_program(program)


def print_program(program):
    signature = program.graph_signature
    lines, aliases = ["graph"], {}
    body = []

    def walk(graph_module, bound):
        """Nested graph modules (set_grad_enabled blocks) are written where they stand."""
        placeholders = iter(bound)
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                if bound:
                    aliases[node] = next(placeholders)
                    continue
                if not isinstance(node.meta["val"], torch.Tensor):
                    continue
                kind = "input" if node.name in signature.user_inputs else "parameter"
                lines.append(f"{kind} %{node.name}: {print_type(node.meta['val'])}")
            elif node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                if node.target in (torch.ops.aten._assert_tensor_metadata.default,):
                    continue
                body.append(print_call(node, aliases))
            elif node.op == "call_function" and "getitem" in str(node.target):
                source, i = node.args
                source = aliases.get(source, source)
                if isinstance(source, tuple):
                    aliases[node] = source[i]
                else:
                    aliases[node] = _Named(f"{source.name}.{i}")
            elif node.op == "call_function" and "wrap_with" in str(node.target):
                module = next(a for a in node.args if isinstance(a, torch.fx.Node) and a.op == "get_attr")
                inner = getattr(program.graph_module, module.target)
                rest = [aliases.get(a, a) for a in node.args if isinstance(a, torch.fx.Node) and a is not module]
                aliases[node] = tuple(walk(inner, rest))
            elif node.op == "output":
                return _flat(node.args[0], aliases)
        return []

    outputs = walk(program.graph_module, [])
    named = [f"%{o.name}" for o in outputs if hasattr(o, "name")]
    return "\n".join(lines + body + ["return " + ", ".join(named)]) + "\n"


class _Named:
    """Stands for one result of a node that returns several."""

    def __init__(self, name):
        self.name = name


def _flat(value, aliases):
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in _flat(part, aliases)]
    found = aliases.get(value, value) if isinstance(value, torch.fx.Node) else value
    return list(found) if isinstance(found, tuple) else [found]


def vision(name):
    import torchvision

    size = 299 if name == "inception_v3" else 224
    extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return getattr(torchvision.models, name)(weights=None, **extra).eval(), (torch.randn(1, 3, size, size),), None


def timm_model(name):
    import timm

    return timm.create_model(name).eval(), (torch.randn(1, 3, 224, 224),), None


def text(name):
    import transformers as t

    ids = torch.randint(0, 1000, (1, 128))
    if name == "bert":
        return t.BertModel(t.BertConfig()).eval(), (ids,), {"return_dict": False}
    if name == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config()).eval(), (ids,), {"return_dict": False, "use_cache": False}
    if name == "llama":
        config = t.LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                               num_key_value_heads=8, vocab_size=32000)
        return t.LlamaForCausalLM(config).eval(), (ids,), {"return_dict": False, "use_cache": False}
    if name == "t5":
        config = t.T5Config(num_layers=4)
        return t.T5Model(config).eval(), (), {"input_ids": ids, "decoder_input_ids": ids, "return_dict": False, "use_cache": False}
    raise ValueError(name)


VISION = ["resnet18", "resnet50", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_large", "squeezenet1_1", "vgg16", "alexnet",
          "mnasnet1_0", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "shufflenet_v2_x1_0", "convnext_tiny",
          "swin_t", "vit_b_16"]
TIMM = ["vit_small_patch16_224", "mixer_b16_224", "resmlp_12_224"]
TEXT = ["bert", "gpt2", "llama", "t5"]


def main():
    folder, names = sys.argv[1], sys.argv[2:] or VISION + TIMM + TEXT
    os.makedirs(folder, exist_ok=True)
    for name in names:
        try:
            make = vision if name in VISION else timm_model if name in TIMM else text
            model, args, kwargs = make(name)
            graph = dump(model, args, kwargs)
            with open(os.path.join(folder, name + ".graph"), "w") as out:
                out.write(graph)
            print(name, graph.count("\n"), "lines", flush=True)
        except Exception as error:
            print(name, "failed:", type(error).__name__, str(error)[:300], flush=True)


if __name__ == "__main__":
    main()
