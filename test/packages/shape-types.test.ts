/** Tests that the types of API responses in the SDK package equal those in this repository. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { shapeTypes } from '../../packages/shape-types.ts'
import { ROOT } from '../support/imports.ts'

const run = promisify(execFile)

/** Compares types member by member, so that types with equal members are equal, however they are composed. */
const EQUAL = `
type Flat<T> = T extends object ? { [K in keyof T]: Flat<T[K]> } : T
type Is<T, U> = (<V>() => V extends Flat<T> ? 1 : 2) extends <V>() => V extends Flat<U> ? 1 : 2 ? true : false
`

const OPTIONS = {
  module: 'nodenext',
  target: 'es2024',
  types: [],
  typeRoots: [],
  strict: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  noEmit: true,
}

/** Returns the compiler's errors about shapes whose types in `written` differ from those of the repository. */
async function differences(written: ReadonlyMap<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-shapes-'))
  try {
    let check = EQUAL
    for (const [file, text] of written) {
      await writeFile(join(folder, file), text)
      const source = join(ROOT, 'src/protocol/shapes', file)
      for (const [, name] of text.matchAll(/^export type (\w+)/gm)) {
        const types = `import('./${file}').${name}, import('${source}').${name}`
        check += `export const is${name}: Is<${types}> = true\n`
      }
    }
    await writeFile(join(folder, 'check.ts'), check)
    await writeFile(join(folder, 'package.json'), '{"type":"module"}')
    const config = { compilerOptions: OPTIONS, files: ['check.ts'] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
    const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch(
      (failed: { stdout: string }) => failed,
    )
    return stdout
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

test('every API response type in the SDK package equals its type in this repository', async () => {
  const written = await shapeTypes()
  const names = [...written.values()].join('').match(/^export type /gm) ?? []
  assert(names.length > 40, `${names.length} shapes`)
  assert.equal(await differences(written), '')
})

test('the check of SDK types detects a field whose type, optionality or set of values has changed', async () => {
  const written = new Map(await shapeTypes())
  for (const [file, before, after] of [
    ['trades.ts', 'readonly price: number', 'readonly price: string'],
    ['relayer.ts', 'readonly tx_hash: string', 'readonly tx_hash?: string'],
    ['config.ts', "readonly role: 'main' | 'test'", "readonly role: 'main'"],
  ] as const) {
    const text = written.get(file) ?? ''
    assert(text.includes(before))
    written.set(file, text.replace(before, after))
  }
  const lines = (await differences(written)).match(/check\.ts\(.*error TS2322/g) ?? []
  // The type of the configuration contains the type of a chain. So the changed `role` causes two of the four errors.
  assert.equal(lines.length, 4)
})
