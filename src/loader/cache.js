/**
 * Location of prepared modules, and the list of bundled ("folded") libraries. All files of this folder are plain
 * JavaScript, because they run before types can be stripped.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Libraries that most threads load and that have hundreds of files each. Each is bundled into a few files. List every
 * subpath that the sources import, such as `viem/chains`. A missing subpath would load a second copy of its library
 * (`tidy.test.ts` checks the list).
 */
export const FOLDED = [
  '@mikro-orm/core',
  '@mikro-orm/migrations',
  '@mikro-orm/mysql',
  '@mikro-orm/sqlite',
  'comlink',
  'comlink/dist/umd/node-adapter.js',
  'pino',
  'pino-pretty',
  'prom-client',
  'typebox',
  'typebox/compile',
  'typebox/system',
  'typebox/value',
  'viem',
  'viem/accounts',
  'viem/chains',
]

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))
export const CACHE = `${ROOT}node_modules/.cache/sibyl/`
/** Folder of the sources without their types. */
export const STRIPPED = `${CACHE}stripped/`

/**
 * Returns the folder of the bundled libraries. Its name depends on the installed versions and on how the libraries are
 * bundled.
 */
export function foldedFolder() {
  const hash = createHash('sha256')
  for (const file of ['node_modules/.package-lock.json', 'src/loader/prepare.js']) {
    hash.update(readFileSync(ROOT + file))
  }
  hash.update(FOLDED.join())
  return `${CACHE}folded-${hash.digest('hex').slice(0, 16)}/`
}

/**
 * Returns the file of a folded library.
 * @param {string} name
 */
export function foldedFile(name) {
  return `${name.replaceAll('/', '+')}.mjs`
}
