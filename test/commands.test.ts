/** Tests that every npm script describes itself with `--help`, and then does nothing else. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, extname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
}

/** Scripts whose `--help` is not tested, because they run other projects' tools, or because npm runs them by itself. */
const NOT_OURS = ['check', 'format', 'lint', 'postinstall', 'types']
/** One program of each kind, because all programs of a kind share the code that prints their help. */
const NAMED = [
  'bench book',
  'crash exchange',
  'fuzz front',
  'soak mixed',
  'load smoke',
  'load compare',
]

/** Runs a script of package.json as npm does, and returns its output. */
function run(script: string, args: string): Promise<{ code: number; out: string; err: string }> {
  const dataDir = join(mkdtempSync(join(tmpdir(), 'sibyl-help-')), 'data')
  const child = spawn('sh', ['-c', `${scripts[script]} ${args}`], {
    cwd: ROOT,
    env: {
      HOME: process.env.HOME ?? '',
      PATH: [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter),
      SIBYL_DATA_DIR: dataDir,
      SIBYL_PORT: '0',
      SIBYL_DEVNET_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout.on('data', (chunk: Buffer) => {
    said.out += chunk
  })
  child.stderr.on('data', (chunk: Buffer) => {
    said.err += chunk
  })
  return new Promise((resolve) => {
    child.once('close', (code) => {
      assert(!existsSync(dataDir), `${script} ${args} has made a data folder`)
      rmSync(join(dataDir, '..'), { recursive: true })
      resolve({ code: code ?? -1, ...said })
    })
  })
}

const asked = [...Object.keys(scripts).filter((name) => !NOT_OURS.includes(name)), ...NAMED]

for (const name of asked) {
  test(`npm run ${name} -- --help describes the program and runs nothing`, async () => {
    const [script = '', ...rest] = name.split(' ')
    const { code, out, err } = await run(script, [...rest, '--help'].join(' '))
    assert.equal(err, '')
    assert.equal(code, 0)
    assert.match(out, /npm (run|test|start)|^ +sibyl [a-z<]/m)
    assert(out.split('\n').length < 60 && out.length > 60, out)
  })
}

test('npm run settings exits without an error if the program that reads its output exits first', async () => {
  const { code, out, err } = await run('settings', '| head -n 1')
  assert.deepEqual({ code, err }, { code: 0, err: '' })
  assert.equal(out, 'SIBYL_PROFILE = "devnet"  # default\n')
})

test('a negative value of an option is refused, and the error names the allowed range', async () => {
  const { code, err } = await run('devnet:warp', '--seconds -5')
  assert.equal(err, "sibyl: --seconds must be a whole number from 1 to 31536000, not '-5'\n")
  assert.equal(code, 2)
})

for (const [script, prefix] of [
  ['start', 'sibyl'],
  ['audit', 'sibyl'],
  ['trader', 'trader'],
] as const) {
  test(`npm run ${script} with an unknown option prints one line and ends with exit code 2`, async () => {
    const { code, out, err } = await run(script, '--nonsense')
    assert.deepEqual({ code, out }, { code: 2, out: '' })
    assert.match(err, new RegExp(`^${prefix}: [^\\n]*--nonsense[^\\n]*--help[^\\n]*\\n$`))
  })
}

test('a program started with a Node version other than 22 prints one line of explanation', async () => {
  // `src/main.ts` is a link to a `.cjs` file. In a real `.ts` file, no line would run on Node 20, so the file could not
  // print an explanation.
  assert.equal(extname(realpathSync(`${ROOT}src/main.ts`)), '.cjs')
  const other = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`
  const pretend = `--import 'data:text/javascript,${encodeURIComponent(other).replaceAll("'", '%27')}'`
  const examples = readdirSync(`${ROOT}examples`).filter((name) => name.endsWith('.js'))
  assert(examples.includes('first-trade.js'))
  for (const entry of [
    '--import ./src/loader/hooks.js src/main.ts',
    'src/main.ts',
    ...examples.map((name) => `examples/${name}`),
  ]) {
    scripts.pretended = `node ${pretend} ${entry}`
    const { code, out, err } = await run('pretended', '')
    assert.deepEqual({ code, out }, { code: 1, out: '' })
    assert.equal(
      err,
      'sibyl: this is Node 20.20.2, but Sibyl needs Node 22: use npm start or npx node, which run that version\n',
    )
  }
})
