// Greedy continuations by llama.cpp, through node-llama-cpp:
//   node llama_cpp.mjs FOLDER MODEL.gguf ROWS.json N OUT.json
// FOLDER is where `npm install node-llama-cpp@3.21.1` was run. ROWS has `ids`, lists of prompt ids,
// and `texts`; OUT gets `ids`, at most N new ones a prompt, and of each text `tokens`, its ids as plain
// text, and `read`, those with special tokens read in it. Keys and values are kept in float32, for
// which llama.cpp's own default is float16.
import fs from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [folder, modelPath, rowsPath, n, out] = process.argv.slice(2);
const entry = path.resolve(folder, "node_modules/node-llama-cpp/dist/index.js");
const {getLlama} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", progressLogs: false, maxThreads: 1});
const model = await llama.loadModel({modelPath});
const rows = JSON.parse(fs.readFileSync(rowsPath, "utf8"));
const exact = {experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"};
const context = await model.createContext({contextSize: 512, flashAttention: false, ...exact});
const sequence = context.getSequence();
const ids = [];
for (const row of rows.ids) {
    await sequence.clearHistory();
    const found = [];
    for await (const token of sequence.evaluate(row, {temperature: 0})) {
        found.push(token);
        if (found.length >= Number(n)) break;
    }
    ids.push(found);
}
const [tokens, read] = [false, true].map((specials) =>
    rows.texts.map((text) => Array.from(model.tokenize(text, specials))));
fs.writeFileSync(out, JSON.stringify({ids, tokens, read}));
await model.dispose();
process.exit(0);
