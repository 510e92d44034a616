/**
 * Tests an exchange in a folder like one that `npm ci --omit=dev` has installed. The exchange starts without the
 * packages of the local chain. If a local chain is configured, one sentence reports that they are missing.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { ROOT } from '../support/imports.ts'
import { TEST_PARTITIONS } from '../support/partitions.ts'

type Lock = { readonly packages: Record<string, { readonly dev?: boolean }> }

/**
 * Makes a production install: copies the sources, and links the packages. Node resolves packages from a file's real
 * location, so the sources must be in the new folder.
 */
function installForProduction(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-production-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  for (const name of ['config', 'contracts', 'src', 'workers', 'package.json']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true, preserveTimestamps: true })
  }
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (dev === true || !/^node_modules\/(@[^/]+\/)?[^/]+$/.test(path)) continue
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    symlinkSync(join(ROOT, path), join(folder, path))
  }
  // An install has a cache of prepared modules. Without this cache each start would be slow.
  for (const name of ['.package-lock.json', '.cache']) {
    symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
  }
  return folder
}

type Run = { readonly child: ChildProcess; readonly said: () => string; ended: Promise<number> }

function start(t: TestContext, cwd: string, environment: Record<string, string>): Run {
  // The npm script takes Node from the PATH.
  const path = [dirname(process.execPath), process.env.PATH].join(delimiter)
  const child = spawn('npm', ['--silent', 'start'], {
    cwd,
    // The process gets its own group, so that the test can also kill a process that npm left behind.
    detached: true,
    env: {
      ...{ HOME: process.env.HOME ?? '', PATH: path },
      ...{ SIBYL_PORT: '0', SIBYL_DATA_DIR: 'data', ...environment },
    },
  })
  t.after(() => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ESRCH')
    }
  })
  let said = ''
  for (const output of [child.stdout, child.stderr]) {
    output.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
  }
  const ended = new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? -1))
  })
  return { child, said: () => said, ended }
}

const WITHOUT_CHAIN = {
  SIBYL_PROFILE: 'production',
  SIBYL_DATABASE_URL: 'sqlite:data/sibyl.db',
  SIBYL_CORS_ORIGINS: '',
  SIBYL_HOST: '127.0.0.1',
  SIBYL_FEEDS_LIVE: 'false',
  SIBYL_LOG_PARTITIONS: String(TEST_PARTITIONS),
  SIBYL_ALLOW_MISSING: 'SIBYL_CHAINS',
}
const SENTENCE =
  'sibyl: the local chain (SIBYL_DEVNET) needs hardhat and @uma/contracts-node, which npm ci --omit=dev leaves ' +
  'out; run npm ci, or name a chain in SIBYL_CHAINS and set SIBYL_DEVNET=false\n'

test('a production install starts, but exits with a one-sentence error if its settings require a local chain', async (t) => {
  const folder = installForProduction(t)
  for (const environment of [{}, { ...WITHOUT_CHAIN, SIBYL_DEVNET: 'true' }]) {
    const { said, ended } = start(t, folder, environment)
    assert.equal(await ended, 1)
    await eventually(() => assert.equal(said(), SENTENCE))
  }
  const { child, said, ended } = start(t, folder, WITHOUT_CHAIN)
  const isOpen = (): boolean => /is open \(production\)/.test(said())
  await eventually(() => assert(isOpen() || child.exitCode !== null, said()))
  assert(isOpen(), said())
  // Only npm receives the signal, as from a script that knows only the npm process.
  child.kill('SIGTERM')
  assert.equal(await ended, 0, said())
  await eventually(() => assert.match(said(), /"failed":false,"msg":"stopped"/))
})
