"""Tools in the form that providers accept: one that refuses a tool's schema refuses every request that carries it.

What is sent says as much as providers allow. Arguments are always checked against the tool's own schema.

- OpenAI and Anthropic: the root is an object without anyOf, oneOf, allOf, enum or not.
- Anthropic: names of properties match [a-zA-Z0-9_.-]{1,64}.
- OpenAI and Anthropic check a schema against the metaschema of draft 2020-12; OpenAI wants `items` for each array.
- Moonshot: references lead to #/$defs/..., and `type` stands in the parts of an `anyOf`, not beside it.
- Ollama knows neither references, `allOf`, `oneOf` nor `const`, and no booleans as schemas.
- Gemini allows nothing but `description` and `default` beside `$ref`, and reads no `const`.
"""
