/**
 * Compares the documents for operators with the exchange: every alarm, setting, file and section that a document names
 * must exist. `scenario/devnet.test.ts` checks the metrics.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { parseYaml } from '@redocly/openapi-core'
import { productionGaps } from '#config/production-gaps.ts'
import { loadSettings, settingsList } from '#config/settings.ts'
import { metricsIn, rules } from './support/alarms.ts'
import { importsOf, ROOT, sourceFiles, targetOf } from './support/imports.ts'

const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

test('every alarm has a section in the runbook, and every section has an alarm', () => {
  const guide = textOf('docs/operating.md')
  const sections = [...guide.matchAll(/^### (Sibyl\w+)\n\n(.*)/gm)]
  assert.deepEqual(
    sections.map(([, name]) => name),
    rules.map(({ alert }) => alert),
  )
  for (const { alert, annotations, labels, expr } of rules) {
    assert.equal(annotations.runbook, `docs/operating.md#${alert.toLowerCase()}`)
    assert.match(annotations.summary, /^\S.*[^.]$/)
    const isPage = sections.some(([, name, text]) => name === alert && text?.startsWith('*page.*'))
    assert.equal(labels.severity, isPage ? 'page' : 'ticket', alert)
    const opened = [...expr].filter((each) => '({['.includes(each)).length
    const closed = [...expr].filter((each) => ')}]'.includes(each)).length
    assert.equal(opened, closed, expr)
    assert(expr.includes('up{') || metricsIn(expr).length > 0, alert)
  }
})

type Cases = {
  readonly tests: readonly {
    readonly name: string
    readonly promql_expr_test: readonly { readonly exp_samples?: readonly unknown[] }[]
  }[]
}

test('each alarm has a test case in which it is first silent and then fires', () => {
  const { tests } = parseYaml(textOf('config/monitoring/prometheus-rules.test.yml')) as Cases
  assert.deepEqual(
    tests.map(({ name }) => name),
    rules.map(({ alert }) => alert),
  )
  for (const { name, promql_expr_test: checks } of tests) {
    const fires = checks.map(({ exp_samples = [] }) => exp_samples.length > 0)
    assert.deepEqual(fires, [false, true], name)
  }
})

test('promtool, the checker of Prometheus, confirms the test cases of the alarms', {
  skip: spawnSync('promtool', ['--version']).status === 0 ? false : 'promtool is not installed',
}, () => {
  const { status, stdout, stderr } = spawnSync(
    'promtool',
    ['test', 'rules', 'prometheus-rules.test.yml'],
    // With the default value of `GOGC`, promtool would spend a third of its time on garbage collection.
    {
      cwd: join(ROOT, 'config/monitoring'),
      env: { ...process.env, GOGC: '400' },
      encoding: 'utf8',
    },
  )
  assert.equal(status, 0, stdout + stderr)
})

/**
 * Matches quoted log lines: text between back-quotes that begins with a small letter and has a space. `…` stands for
 * any text.
 */
const LOG_WORDS = /`([a-z][^`\n]* [^`]*)`/g

test('every log line that the runbook quotes occurs literally in the code', () => {
  const guide = textOf('docs/operating.md')
  const runbook = guide.slice(guide.indexOf('\n## Keys')).replaceAll(/^```[\s\S]*?^```$/gm, '')
  const code = sourceFiles()
    .filter((file) => /^(src|config)\//.test(file))
    .map((file) => textOf(file).replaceAll(/\$\{[^}]*\}/g, '…'))
    .join('\n')
    .replaceAll(/' \+\s+'/g, '')
  const lines = [...runbook.replaceAll(/\n(?=\S)/g, ' ').matchAll(LOG_WORDS)].map(
    ([, words = '']) => words,
  )
  const named = lines.filter(
    (line) => !/^(npm|sibyl|select|touch|journalctl|mariadbd?) /.test(line),
  )
  assert(named.includes('a key runs out of ether for gas'))
  const parts = (line: string) => line.split('…').map((part) => part.trim())
  assert.deepEqual(
    named.filter((line) => !parts(line).every((part) => code.includes(part))),
    [],
  )
})

test('the guides and the files for operators name only settings that exist', () => {
  const all = settingsList().map(({ leaf }) => leaf.env)
  /** Returns whether the exchange knows this name as a setting, or ignores the name on purpose. */
  const isKnown = (name: string): boolean => {
    try {
      loadSettings({ [name]: '' })
      return true
    } catch (error) {
      return !String(error).includes('there is no such setting')
    }
  }
  const files = [
    ...['README.md', 'SECURITY.md', 'Dockerfile', 'compose.yaml'],
    ...readdirSync(join(ROOT, 'config/deploy')).map((name) => `config/deploy/${name}`),
    ...readdirSync(join(ROOT, 'docs'))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ]
  const wrong = files.flatMap((file) =>
    // `SIBYL_LIMIT_…` stands for all settings whose names begin with `SIBYL_LIMIT_`.
    (textOf(file).match(/SIBYL_[A-Z0-9_]+…?/g) ?? [])
      .filter((name) => !isKnown(name))
      // Compose itself puts the password into `SIBYL_DATABASE_URL`.
      .filter((name) => name !== 'SIBYL_DB_PASSWORD')
      .filter(
        (name) => !(name.endsWith('_…') && all.some((each) => each.startsWith(name.slice(0, -1)))),
      )
      .map((name) => `${file}: ${name}`),
  )
  assert.deepEqual(wrong, [])
})

test('each link within the documents leads to an existing file and heading', () => {
  const anchorOf = (title: string): string =>
    title
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-')
  const anchorsIn = (file: string): string[] =>
    [...textOf(file).matchAll(/^#{1,6} (.*)$/gm)].map(([, title = '']) => anchorOf(title))
  const documents = [
    ...[
      'README.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'ARCHITECTURE.md',
      'config/monitoring/README.md',
    ],
    ...readdirSync(join(ROOT, 'docs'))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ]
  const broken: string[] = []
  for (const file of documents) {
    for (const [, link = ''] of textOf(file).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue
      const [path = '', anchor] = link.split('#')
      const to = path === '' ? file : normalize(join(dirname(file), path))
      if (!existsSync(join(ROOT, to))) broken.push(`${file}: ${link}`)
      else if (anchor !== undefined && !anchorsIn(to).includes(anchor))
        broken.push(`${file}: ${link}`)
    }
  }
  assert.deepEqual(broken, [])
})

test('every test file that SECURITY.md names as a proof exists', () => {
  const named = [...textOf('SECURITY.md').matchAll(/`(test\/[^`]+)`/g)].map(([, path = '']) => path)
  assert(named.length > 20, `${named.length} tests are named`)
  assert.deepEqual(
    named.filter((path) => !existsSync(join(ROOT, path))),
    [],
  )
})

type Compose = {
  readonly services: Record<
    string,
    {
      readonly environment?: Record<string, string>
      readonly secrets?: readonly string[]
      readonly volumes?: readonly string[]
      readonly depends_on?: Record<string, unknown>
    }
  >
  readonly secrets: Record<string, { readonly file: string }>
  readonly volumes: Record<string, unknown>
}

test('the compose file defines everything that it uses, and its settings are valid for production', () => {
  const { services, secrets, volumes } = parseYaml(textOf('compose.yaml')) as Compose
  assert.deepEqual(Object.keys(services), ['database', 'exchange'])
  for (const { secrets: used = [], volumes: mounted = [], depends_on = {} } of Object.values(
    services,
  )) {
    for (const name of used) assert(name in secrets, name)
    for (const mount of mounted) assert(mount.split(':')[0]! in volumes, mount)
    for (const name of Object.keys(depends_on)) assert(name in services, name)
  }
  const keys: Record<string, string> = {}
  const keyOf = (secret: string): string => {
    keys[secret] ??= `0x${`a${Object.keys(keys).length}`.repeat(32)}`
    return keys[secret]
  }
  const chains = /```json\n(.*?)```/s.exec(textOf('docs/operating.md'))?.[1] ?? ''
  const given: Record<string, string> = {
    ...{ SIBYL_DB_PASSWORD: 'secret', SIBYL_CHAINS: chains },
    ...{ SIBYL_CORS_ORIGINS: '', SIBYL_PYTH_API_KEY: 'secret' },
  }
  const environment = Object.entries(services.exchange?.environment ?? {}).map(([name, value]) => {
    const filled = value.replaceAll(
      /\$\{(\w+):?\?[^}]*\}/g,
      (_, variable: string) => given[variable] ?? '',
    )
    const secret = /^\/run\/secrets\/(\w+)$/.exec(filled)?.[1]
    if (secret !== undefined) assert(services.exchange?.secrets?.includes(secret), secret)
    return [name, secret === undefined ? filled : keyOf(secret)]
  })
  const image = [...textOf('Dockerfile').matchAll(/(SIBYL_\w+)=(\S+)/g)].map(([, name, value]) => [
    name,
    value,
  ])
  const settings = loadSettings(Object.fromEntries([...image, ...environment]))
  assert.equal(settings.profile, 'production')
  assert.equal(settings.database.url, 'mysql://sibyl:secret@database:3306/sibyl')
  assert.equal(settings.keys.settlement, keys.settlement_key)
  assert.equal(
    settings.chains[0]?.rpcUrls.length,
    2,
    'the example of the guide is one that is taken',
  )
  // Of the guide's settings, only `SIBYL_CHAINS` must be replaced for production, because its chain is an example.
  const gaps = productionGaps(settings)
  assert.deepEqual(new Set(gaps.map(({ setting }) => setting)), new Set(['SIBYL_CHAINS']))
  for (const { problem } of gaps) assert.match(problem, /placeholder|local chain/)
  const { data, front } = settings
  assert(services.exchange?.volumes?.includes(`data:${data.dir}`))
  assert.match(textOf('Dockerfile'), new RegExp(`EXPOSE ${front.port} ${front.adminPort}\n`))
})

/**
 * Only these files load the packages of the local chain. Before either file is loaded, `requireDevnetPackages` checks
 * that the packages are installed.
 */
const LOCAL_CHAIN = ['src/devnet/open-devnet.ts', 'src/devnet/chain-host.ts']

/** Returns the files and libraries that these files load, import, or start as a thread or a process. */
function loadedFrom(entries: readonly string[]): string[] {
  const loaded = new Set(entries)
  for (const file of loaded) {
    if (!/\.(ts|tsx|js|cjs)$/.test(file) || !existsSync(join(ROOT, file))) continue
    const imports = importsOf(file).filter(({ typeOnly }) => !typeOnly)
    const text = textOf(file)
    const required = text.matchAll(/\brequire\(['"]([^'"]+)['"]\)/g)
    const started = text.matchAll(/new URL\(\s*['"](\.[^'"]+\.[jt]s)['"],\s*import\.meta\.url/g)
    const named = [...required, ...started].map(([, from = '']) => from)
    for (const from of [...imports.map((each) => each.from), ...named]) {
      const target = targetOf(file, from)
      if (!LOCAL_CHAIN.includes(target)) loaded.add(target)
    }
  }
  return [...loaded]
}

test('a production install contains every file and package that an exchange and its commands load', () => {
  const { scripts, bin, dependencies, optionalDependencies, devDependencies } = JSON.parse(
    textOf('package.json'),
  ) as Record<string, Record<string, string>>
  const commands = ['start', 'settings', 'audit', 'backup', 'restore', 'rebuild', 'postinstall']
  const started = commands.flatMap((name) => scripts?.[name]?.match(/\bsrc\/\S+/g) ?? [])
  const workers = sourceFiles().filter((file) => file.startsWith('workers/'))
  const loaded = loadedFrom([...started, ...Object.values(bin ?? {}), ...workers])
  for (const file of ['src/boot/boot.ts', 'src/log/server/base-thread.ts', 'src/cli/run.ts']) {
    assert(loaded.includes(file), file)
  }
  const isOf = (name: string, from: string): boolean => from === name || from.startsWith(`${name}/`)
  const installed = Object.keys({ ...dependencies, ...optionalDependencies })
  const libraries = loaded.filter((each) => !existsSync(join(ROOT, each)) && !isBuiltin(each))
  assert(libraries.includes('pino') && libraries.includes('viem'))
  assert.deepEqual(
    libraries.filter((each) => !installed.some((name) => isOf(name, each))),
    [],
  )
  // Some code names a package only as text and resolves it at run time, for example to read an artifact. So the test
  // also searches the text of the files.
  const left = Object.keys(devDependencies ?? {})
  const ours = loaded.filter((each) => existsSync(join(ROOT, each)))
  const naming = ours.filter((file) =>
    left.some((name) => new RegExp(`['"\`]${name}/`).test(textOf(file))),
  )
  assert.deepEqual(naming, [])
  // Checks the search itself: it must find the development packages that the local chain loads.
  const local = loadedFrom(LOCAL_CHAIN)
  assert(local.includes('hardhat/hre') && local.includes('src/devnet/artifact.ts'))
})

test('every file that the Dockerfile and the systemd unit refer to exists', () => {
  const copied = [...textOf('Dockerfile').matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(
    ([, from]) => from!.split(' '),
  )
  assert(copied.includes('src') && copied.includes('package-lock.json'))
  for (const path of copied) assert(existsSync(join(ROOT, path)), path)
  // The image must not need files that `.dockerignore` excludes.
  const ignored = textOf('.dockerignore').trim().split('\n')
  for (const path of copied) assert(!ignored.includes(path), path)
  const unit = textOf('config/deploy/sibyl.service')
  const start = /^ExecStart=\/opt\/sibyl\/(.*)$/m.exec(unit)?.[1]?.split(' ') ?? []
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }
  assert.equal(['exec node', ...start.slice(1)].join(' '), scripts.start)
  assert.equal(start[0], 'node_modules/.bin/node')
  const environment = [...unit.matchAll(/^Environment=(SIBYL_\w+)=(.*)$/gm)].map(
    ([, name, value]) => [name, value],
  )
  assert.equal(loadSettings(Object.fromEntries(environment)).data.dir, '/var/lib/sibyl')
  // The backup service runs the command of `npm run backup`, with the exchange's settings.
  const backup = textOf('config/deploy/sibyl-backup.service')
  assert(backup.includes(`node_modules/.bin/${scripts.backup} --to `))
  for (const [name, value] of environment.filter(([each]) => each !== 'SIBYL_LOG_FORMAT')) {
    assert(backup.includes(`Environment=${name}=${value}\n`), name)
  }
})
