/**
 * Where prepared modules are kept, and which libraries are folded. Plain JavaScript, like all of this
 * room: it runs before anything can strip types.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Libraries of hundreds of files that most threads load: each becomes a few files. A subpath that is
 * used anywhere must be here too, else two copies of one library would be loaded (`tidy.test.ts` looks).
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
/** Sources without their types. */
export const STRIPPED = `${CACHE}stripped/`

/** The folder of the folded libraries, named after what is installed and how it is folded. */
export function foldedFolder() {
  const hash = createHash('sha256')
  for (const file of ['node_modules/.package-lock.json', 'src/loader/prepare.js']) {
    hash.update(readFileSync(ROOT + file))
  }
  hash.update(FOLDED.join())
  return `${CACHE}folded-${hash.digest('hex').slice(0, 16)}/`
}

/**
 * The file of a folded library.
 * @param {string} name
 */
export function foldedFile(name) {
  return `${name.replaceAll('/', '+')}.mjs`
}
