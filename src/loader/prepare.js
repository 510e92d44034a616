/**
 * Prepares the cache of `hooks.js`, after an installation or at the first start. It bundles the large libraries, strips
 * the types from the sources, and removes files of earlier versions. This only affects speed: if the preparation fails,
 * it prints one line, and the exchange starts more slowly.
 */

import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { CACHE, FOLDED, foldedFile, foldedFolder, ROOT } from './cache.js'
import { strippedSource } from './strip.js'

const SOURCES = ['src', 'workers', 'config', 'contracts', 'test', 'loadtest']
/** Packages with native modules, which must be loaded from their own folder. */
const UNFOLDED = ['better-sqlite3']
/**
 * Library module that is left out of the bundle. Sibyl does not use the module, and it would load a large part of Node.
 */
const LEFT_OUT = /\/pushgateway$/
/**
 * Maximum age of a draft folder in milliseconds. An older one is removed, because its process has ended without
 * completing it.
 */
const DRAFT_MS_MAX = 3_600_000

try {
  const folder = foldedFolder()
  if (!existsSync(folder)) await fold(folder)
  stripAll()
  removeOld(folder)
} catch (error) {
  process.stderr.write(`sibyl: starts will be slower: ${/** @type {Error} */ (error).message}\n`)
}

/**
 * Writes one module for each folded library, and modules for the parts that they share.
 * @param {string} folder
 */
async function fold(folder) {
  const { build } = await import('esbuild')
  const draft = `${CACHE}draft-${process.pid}`
  const entries = new Map()
  for (const name of FOLDED) {
    const names = Object.keys(await import(name))
    // List the exported names, because a bundled CommonJS library does not expose them.
    entries.set(name, `export { ${names.join(', ')} } from '${name}'`)
  }
  await build({
    entryPoints: FOLDED.map((name) => ({ in: `fold:${name}`, out: foldedFile(name).slice(0, -4) })),
    outdir: draft,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    external: UNFOLDED,
    logLevel: 'silent',
    // Write only ASCII, so that `hooks.js` can read the file without decoding UTF-8.
    charset: 'ascii',
    // CommonJS parts of the bundle call `require` to load Node's own modules. An ES module has no `require`, so define
    // one.
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'\nconst require = requireFrom(import.meta.url)",
    },
    plugins: [
      {
        name: 'fold',
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /^fold:/ }, ({ path }) => ({
            path: path.slice(5),
            namespace: 'fold',
          }))
          onLoad({ filter: /.*/, namespace: 'fold' }, ({ path }) => ({
            contents: entries.get(path),
            resolveDir: ROOT,
          }))
          onResolve({ filter: LEFT_OUT }, ({ path }) => ({ path, namespace: 'left out' }))
          onLoad({ filter: /.*/, namespace: 'left out' }, ({ path }) => ({
            contents: `module.exports = class { constructor() { throw new Error('${path} is left out') } }`,
          }))
        },
      },
    ],
  })
  try {
    renameSync(draft, folder)
  } catch (error) {
    // Ignore the error if another start has made the folder at the same time.
    if (!existsSync(folder)) throw error
  }
}

function stripAll() {
  // Skip missing folders: a container image installs the dependencies before its sources are copied, and it has no
  // tests.
  for (const room of SOURCES.filter((name) => existsSync(ROOT + name))) {
    for (const file of readdirSync(ROOT + room, { recursive: true, encoding: 'utf8' })) {
      if (file.endsWith('.ts')) strippedSource(`${ROOT}${room}/${file}`)
    }
  }
}

/** @param {string} folder */
function removeOld(folder) {
  for (const name of readdirSync(CACHE)) {
    const isOld = name.startsWith('draft-')
      ? statSync(CACHE + name).mtimeMs < Date.now() - DRAFT_MS_MAX
      : name.startsWith('folded-') && !folder.endsWith(`/${name}/`)
    if (isOld) rmSync(CACHE + name, { recursive: true, force: true })
  }
}
