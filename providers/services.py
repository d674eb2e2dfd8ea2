"""Services that need no module of their own: plain data, in the form of the tables `[providers.NAME]` in config.toml.

`ask` reads this only for a name that is not built in, installed or described in config.toml, and for lists. `model` is
one that the vendor's page names; without it, the first model of the service's list is used. Besides the keys of
config.toml, a row has

- `title`: the display name;
- `page`: where the vendor states the facts, or a page that quotes it, and `read`: the date on which it was read;
- `key_env`: the variables that may contain the key, the first of which hints name; servers without keys have none;
- `is_local`: the server runs models on the user's own machine, where they cost nothing;
- `call_id`: the only form of call ids that the service accepts, as in `CALL_ID_PATTERNS` of `ask.client.endpoint`;
- `requests_usage`: False if the service refuses `stream_options`;
- `state_fields`: fields of an assistant message to send back, as in `ask.ChatCompletions`; by default,
  `reasoning_details`;
- `attachments`: the MIME types that messages may contain; by default, all that the API can represent;
- `caches_all_models`: for the API `messages`, whether the service caches the prefix up to a `cache_control` marker;
- `models`: rows with the fields of `ask.profiles.ModelProfile`, which the user's own precede.

There is no row for GitHub Copilot: only tokens of certain programs, such as an editor's, can be exchanged for a key of
its API, and personal access tokens are refused. https://hexdocs.pm/sycophant/0.4.2/github-copilot.html
"""

from __future__ import annotations

from typing import Any

IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")

SERVICES: dict[str, dict[str, Any]] = {
    "alibaba": {
        "title": "Alibaba Cloud",
        "base_url": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "key_env": ("DASHSCOPE_API_KEY",),
        "model": "qwen-plus",
        "page": "https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope",
        "read": "2026-11-27",
    },
    "azure": {
        "title": "Azure OpenAI",
        "base_url": "https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1",
        "key_env": ("AZURE_OPENAI_API_KEY",),
        "api": "responses",
        "page": "https://learn.microsoft.com/azure/ai-services/openai/quickstart",
        "read": "2026-11-26",
    },
    "bedrock": {
        "title": "Amazon Bedrock",
        "base_url": "https://bedrock-mantle.${AWS_REGION}.api.aws/v1",
        "key_env": ("AWS_BEARER_TOKEN_BEDROCK",),
        "page": "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions-mantle.html",
        "read": "2026-11-26",
    },
    "cerebras": {
        "title": "Cerebras",
        "base_url": "https://api.cerebras.ai/v1",
        "key_env": ("CEREBRAS_API_KEY",),
        "model": "gpt-oss-120b",
        "page": "https://inference-docs.cerebras.ai/api-reference/chat-completions",
        "read": "2026-11-27",
    },
    "cloudflare": {
        "title": "Cloudflare Workers AI",
        "base_url": "https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1",
        "key_env": ("CLOUDFLARE_API_KEY",),
        "page": "https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility",
        "read": "2026-11-26",
    },
    "cohere": {
        "title": "Cohere",
        "base_url": "https://api.cohere.ai/compatibility/v1",
        "key_env": ("COHERE_API_KEY",),
        "model": "command-a-03-2025",
        "requests_usage": False,  # https://strandsagents.com/docs/user-guide/concepts/model-providers/cohere/
        "page": "https://docs.cohere.com/docs/compatibility-api",
        "read": "2026-11-26",
    },
    "deepinfra": {
        "title": "DeepInfra",
        "base_url": "https://api.deepinfra.com/v1/openai",
        "key_env": ("DEEPINFRA_API_KEY",),
        "page": "https://deepinfra.com/docs/advanced/openai_api",
        "read": "2026-11-26",
    },
    "fireworks": {
        "title": "Fireworks AI",
        "base_url": "https://api.fireworks.ai/inference/v1",
        "key_env": ("FIREWORKS_API_KEY",),
        "page": "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
        "read": "2026-11-26",
    },
    "groq": {
        "title": "Groq",
        "base_url": "https://api.groq.com/openai/v1",
        "key_env": ("GROQ_API_KEY",),
        "model": "openai/gpt-oss-120b",
        "page": "https://console.groq.com/docs/models",
        "read": "2026-11-27",
    },
    "huggingface": {
        "title": "Hugging Face",
        "base_url": "https://router.huggingface.co/v1",
        "key_env": ("HF_TOKEN",),
        "model": "openai/gpt-oss-120b",
        "page": "https://huggingface.co/docs/inference-providers/guides/responses-api",
        "read": "2026-11-27",
    },
    "litellm": {
        "title": "LiteLLM",
        "base_url": "http://localhost:4000/v1",
        "page": "https://docs.litellm.ai/docs/proxy_server.md",
        "read": "2026-11-26",
    },
    "llamacpp": {
        "title": "llama.cpp",
        "base_url": "http://localhost:9931/v1",
        "is_local": True,
        "page": "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        "read": "2026-11-26",
    },
    "meta": {
        "title": "Meta Model API",
        "base_url": "https://api.meta.ai/v1",
        "key_env": ("MODEL_API_KEY",),
        "api": "responses",
        "model": "muse-spark-1.3",
        # It quotes https://dev.meta.ai/docs, which needs an account.
        "page": "https://github.com/lidge-jun/opencodex/pull/3321",
        "read": "2026-11-27",
    },
    "minimax": {
        "title": "MiniMax",
        "base_url": "https://api.minimax.io/anthropic",
        "key_env": ("MINIMAX_API_KEY",),
        "key_header": "Authorization",  # https://github.com/gsd-build/gsd-2/issues/3783
        "api": "messages",
        "model": "MiniMax-M3",
        # https://platform.minimax.io/docs/api-reference/anthropic-api-compatible-cache
        "caches_all_models": True,
        "models": (
            {
                "pattern": "MiniMax-M3*",
                "efforts": ("none", "high"),
                "effort_parameters": {
                    "none": {"thinking": {"type": "disabled"}},
                    "high": {"thinking": {"type": "adaptive"}},
                },
                "context_length": 1_000_000,
                "attachments": IMAGE_TYPES,
            },
            {
                "pattern": "MiniMax-M2*",
                "efforts": ("high",),
                "effort_parameters": {"high": {}},
                "context_length": 204_800,
                "attachments": (),
            },
        ),
        "page": "https://platform.minimax.io/docs/api-reference/text-anthropic-api",
        "read": "2026-11-27",
    },
    "mistral": {
        "title": "Mistral AI",
        "base_url": "https://api.mistral.ai/v1",
        "key_env": ("MISTRAL_API_KEY",),
        "model": "mistral-medium-latest",
        "call_id": "alphanumeric-9",
        "requests_usage": False,  # it is sent anyway
        "state_fields": ("content",),  # a list if it contains thinking
        "attachments": IMAGE_TYPES,
        "page": "https://github.com/mistralai/client-python",
        "read": "2026-11-26",
    },
    "nvidia": {
        "title": "NVIDIA",
        "base_url": "https://integrate.api.nvidia.com/v1",
        "key_env": ("NVIDIA_API_KEY",),
        "page": "https://github.com/langchain-ai/langchain-nvidia",
        "read": "2026-11-26",
    },
    "perplexity": {
        "title": "Perplexity",
        "base_url": "https://api.perplexity.ai/v1",
        "key_env": ("PERPLEXITY_API_KEY",),
        "api": "responses",
        "attachments": IMAGE_TYPES,  # https://github.com/perplexityai/perplexity-py
        "page": "https://docs.perplexity.ai/docs/grounded-llm/openai-compatibility",
        "read": "2026-11-26",
    },
    "sglang": {
        "title": "SGLang",
        "base_url": "http://localhost:30000/v1",
        "is_local": True,
        "page": "https://mintlify.com/sgl-project/sglang/quickstart",
        "read": "2026-11-26",
    },
    "together": {
        "title": "Together AI",
        "base_url": "https://api.together.ai/v1",
        "key_env": ("TOGETHER_API_KEY",),
        "model": "openai/gpt-oss-20b",
        "page": "https://docs.together.ai/docs/inference/openai-compatibility",
        "read": "2026-11-26",
    },
    "vercel": {
        "title": "Vercel AI Gateway",
        "base_url": "https://ai-gateway.vercel.sh/v1",
        "key_env": ("AI_GATEWAY_API_KEY",),
        "page": "https://vercel.com/docs/ai-gateway/sdks-and-apis/openai-chat-completions",
        "read": "2026-11-26",
    },
    "vertex": {
        "title": "Vertex AI",
        "base_url": "https://aiplatform.googleapis.com/v1/projects/${GOOGLE_CLOUD_PROJECT}/locations/global/publishers/google",
        "key_env": ("VERTEX_ACCESS_TOKEN",),
        "key_header": "Authorization",
        "api": "gemini",
        "model": "gemini-4-argon",
        "page": "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/start/get-started-with-gemini-4",
        "read": "2026-11-27",
    },
    "vllm": {
        "title": "vLLM",
        "base_url": "http://localhost:8000/v1",
        "is_local": True,
        "page": "https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/cli_args.py",
        "read": "2026-11-26",
    },
    "zai": {
        "title": "Z.AI",
        "base_url": "https://api.z.ai/api/paas/v4",
        "key_env": ("ZAI_API_KEY",),
        "state_fields": ("reasoning_content",),  # https://docs.z.ai/guides/capabilities/thinking-mode
        "page": "https://docs.z.ai/api-reference/introduction",
        "read": "2026-11-26",
    },
}
