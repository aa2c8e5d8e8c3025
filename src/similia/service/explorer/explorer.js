// The page to try the API: forms made from /openapi.json. Text is only ever set as text.

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function example(schema, schemas, depth = 0) {
  if (depth > 6) return null;
  if (schema.$ref) return example(schemas[schema.$ref.split("/").pop()], schemas, depth + 1);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return example(choices[0], schemas, depth + 1);
  switch (schema.type) {
    case "object": {
      const found = {};
      for (const [name, inner] of Object.entries(schema.properties || {})) {
        if ((schema.required || []).includes(name)) found[name] = example(inner, schemas, depth + 1);
      }
      return found;
    }
    case "array": return [];
    case "integer":
    case "number": return schema.minimum || 0;
    case "boolean": return false;
    case "string": return "";
    default: return {};
  }
}

function address(path, fields) {
  const query = new URLSearchParams();
  let filled = path.replace("{tenant}", encodeURIComponent($("tenant").value));
  for (const { parameter, input } of fields) {
    if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.set(parameter.name, input.value);
  }
  const text = query.toString();
  return text ? `${filled}?${text}` : filled;
}

async function send(method, path, fields, body, output) {
  output.textContent = "…";
  const headers = {};
  if ($("key").value) headers.Authorization = `Bearer ${$("key").value}`;
  if (body) headers["Content-Type"] = "application/json";
  try {
    const start = performance.now();
    const response = await fetch(address(path, fields), { method, headers, body: body ? body.value : undefined });
    const text = await response.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON */ }
    const time = (performance.now() - start).toFixed(0);
    output.textContent = `${response.status} ${response.statusText} (${time} ms)\n${shown}`;
  } catch (error) {
    output.textContent = `No answer: ${error.message}`;
  }
}

function operation(method, path, about, schemas) {
  const inside = element("div", {}, element("p", { textContent: about.description || "" }));
  const fields = [];
  for (const parameter of about.parameters || []) {
    if (parameter.name === "tenant") continue;
    const input = element("input", { spellcheck: false, placeholder: parameter.required ? "required" : "" });
    fields.push({ parameter, input });
    inside.append(element("label", {}, `${parameter.name} `, input, ` ${parameter.description || ""}`));
  }
  let body = null;
  if (about.requestBody) {
    const schema = about.requestBody.content["application/json"].schema;
    body = element("textarea", { spellcheck: false, value: JSON.stringify(example(schema, schemas), null, 2) });
    inside.append(element("label", {}, "Body", body));
  }
  const output = element("pre", { textContent: "" });
  const button = element("button", { type: "button", textContent: "Send" });
  button.addEventListener("click", () => send(method.toUpperCase(), path, fields, body, output));
  inside.append(button, output);
  const title = element("summary", {},
    element("span", { className: `method ${method}`, textContent: method.toUpperCase() }),
    element("code", { textContent: path }), about.summary || "");
  return element("details", {}, title, inside);
}

const found = await (await fetch("/openapi.json")).json();
$("about").textContent = `${found.info.description} Version ${found.info.version}.`;
for (const [path, methods] of Object.entries(found.paths)) {
  for (const [method, about] of Object.entries(methods)) {
    $("operations").append(operation(method, path, about, found.components.schemas));
  }
}
