// The API as openapi.json declares it, with a curl example for each way to ask.

const SENDS = {
  "application/json": ['{"rows": [[...]]}', '{"texts": ["..."]}'].map((body) => `-H 'Content-Type: application/json' -d '${body}'`),
  "application/octet-stream": "-H 'Content-Type: application/octet-stream' --data-binary @rows.bin",
  "multipart/form-data": "-F image=@first.jpg -F image=@second.png",
  "image/jpeg": "-H 'Content-Type: image/jpeg' --data-binary @photo.jpg",
  "application/zip": "-H 'Content-Type: application/zip' --data-binary @images.zip",
};

function examples(path, method, operation) {
  const place = `${location.origin}${path.replace("{name}", "NAME")}`;
  const carried = sessionStorage.getItem("token") ? "-H \"Authorization: Bearer $ZOO_TOKEN\" " : "";
  if (method === "get") return [`curl ${carried}${path === "/training" ? "-N " : ""}${place}`];
  return Object.keys(operation.requestBody.content).filter((kind) => kind in SENDS).flatMap((kind) => SENDS[kind]).map((sent) => `curl ${carried}${sent} ${place}`);
}

function option({ name, schema }) {
  const kind = schema.type ?? schema.anyOf.map((one) => one.type).filter((type) => type !== "null").join(" or ");
  return `?${name}=${kind}${schema.default === undefined || schema.default === "" ? "" : ` (default ${schema.default})`}`;
}

function route(path, method, operation) {
  const options = (operation.parameters || []).filter((parameter) => parameter.in === "query");
  return make("section", { class: "card" },
    make("div", { class: "route" }, make("span", { class: "method" }, method.toUpperCase()), make("h2", {}, path)),
    make("p", {}, operation.description || operation.summary),
    operation.requestBody ? make("p", { class: "soft" }, operation.requestBody.description) : null,
    options.map((parameter) => make("p", { class: "soft" }, option(parameter))),
    make("pre", { tabindex: "0" }, examples(path, method, operation).join("\n")),
    make("details", {}, make("summary", {}, "Answers"), make("dl", { class: "codes" },
      Object.entries(operation.responses).flatMap(([code, response]) => [make("dt", {}, code), make("dd", {}, response.description)]))));
}

begin(async () => {
  const api = await askJson("/openapi.json");
  byId("main").replaceChildren(...Object.entries(api.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => route(path, method, operation))));
});
