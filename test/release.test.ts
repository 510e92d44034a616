/** Tests the check before a release tag on small repositories: correct ones, and ones with a single fault. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from './support/imports.ts'
import { releaseChecks } from './support/release-checks.ts'

type Files = Readonly<Record<string, string>>

const PACKAGE = { version: '0.2.0', license: 'Apache-2.0', dependencies: { viem: '2.57.1' } }
const LOCK = {
  version: '0.2.0',
  packages: { '': { version: '0.2.0' }, viem: { version: '2.57.1' } },
}
const MIGRATION = 'export const first = 1\n'
const LIST = "import { first } from './001-first.ts'\nexport const list = [first]\n"
const CHANGELOG =
  '# Changelog\n\n## 0.2.0 (2026-11-16)\n\n- New.\n\n## 0.1.0 (2026-11-15)\n\n- All.\n'

const RIGHT: Files = {
  'package.json': JSON.stringify(PACKAGE),
  'package-lock.json': JSON.stringify(LOCK, null, 2),
  'CHANGELOG.md': CHANGELOG,
  LICENSE: 'Apache License\nVersion 2.0\n',
  'src/store/migrations/001-first.ts': MIGRATION,
  'src/store/migrations/list.ts': LIST,
}

const git = (root: string, ...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
    cwd: root,
    encoding: 'utf8',
    env: { PATH: process.env.PATH ?? '', GIT_CONFIG_NOSYSTEM: '1', HOME: root },
  })

function put(root: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
}

function repository(files: Files): string {
  const root = mkdtempSync(join(tmpdir(), 'sibyl-release-'))
  git(root, 'init', '-q')
  put(root, files)
  git(root, 'add', '-A', '-f')
  git(root, 'commit', '-q', '-m', 'all')
  return root
}

/** Returns the checks that prevent a release, as `name: why`. */
const wrongIn = (root: string): string[] =>
  releaseChecks(root)
    .filter(({ wrong }) => wrong !== '')
    .map(({ name, wrong }) => `${name}: ${wrong}`)

test('the release check accepts a repository that complies with all release rules', (t) => {
  const root = repository(RIGHT)
  t.after(() => rmSync(root, { recursive: true }))
  assert.deepEqual(wrongIn(root), [])
  const skipped = releaseChecks(root).filter(({ skipped }) => skipped !== undefined)
  assert.equal(skipped.length, 2, 'the commands that this repository does not have')
  git(root, 'tag', 'v0.2.0')
  assert.deepEqual(wrongIn(root), [], 'a tag of this very commit')
  put(root, { 'later.txt': '' })
  git(root, 'add', '-A')
  git(root, 'commit', '-q', '-m', 'later')
  assert.deepEqual(wrongIn(root), ['the tag is free: v0.2.0 is another commit already'])
})

const manifest = (change: object): Files => ({
  'package.json': JSON.stringify({ ...PACKAGE, ...change }),
})

const BROKEN: Record<string, { files: Files; wrong: RegExp }> = {
  'an invalid version': {
    files: manifest({ version: 'next' }),
    wrong: /^the version is one: package.json has "next"/,
  },
  'another version in the lock file': {
    files: { 'package-lock.json': JSON.stringify({ ...LOCK, version: '0.1.0' }) },
    wrong: /^the version is one: package.json has 0.2.0, package-lock.json 0.1.0$/,
  },
  'a changelog without the current version at its top': {
    files: { 'CHANGELOG.md': '# Changelog\n\n## Unreleased\n\n- New.\n' },
    wrong: /^the changelog has it on top: CHANGELOG.md begins with Unreleased/,
  },
  'a changelog version without a date': {
    files: { 'CHANGELOG.md': CHANGELOG.replace(' (2026-11-16)', '') },
    wrong: /: 0.2.0 has no date like/,
  },
  'an invalid date in the changelog': {
    files: { 'CHANGELOG.md': CHANGELOG.replace('2026-11-16', '2026-13-45') },
    wrong: /: 0.2.0 has no date like/,
  },
  'an empty changelog section for the version': {
    files: { 'CHANGELOG.md': CHANGELOG.replace('- New.', '') },
    wrong: /: CHANGELOG.md says nothing of 0.2.0$/,
  },
  'changelog versions out of order': {
    files: { 'CHANGELOG.md': CHANGELOG.replace('## 0.1.0', '## 0.10.0') },
    wrong: /: 0.10.0 is not older than what is above it$/,
  },
  'a dependency that is not pinned to one version': {
    files: manifest({ dependencies: { viem: '^2.57.1' } }),
    wrong: /^dependencies are pinned: viem may be any of \^2.57.1$/,
  },
  'a lock file that names a registry': {
    files: {
      'package-lock.json': JSON.stringify(
        { ...LOCK, resolved: 'https://r.example/viem.tgz' },
        null,
        1,
      ),
    },
    wrong: /^the lock file names no registry: it has https:\/\/r.example/,
  },
  'another licence in package.json': {
    files: manifest({ license: 'MIT' }),
    wrong: /^the licence is there: package.json says MIT$/,
  },
  'another text in the file LICENSE': {
    files: { LICENSE: 'Do as you like.\n' },
    wrong: /^the licence is there: LICENSE is not/,
  },
  'a migration that is not listed': {
    files: { 'src/store/migrations/002-second.ts': MIGRATION },
    wrong: /^migrations are listed: .*list.ts does not list 002-second.ts$/,
  },
  'a gap in the migrations': {
    files: { 'src/store/migrations/003-third.ts': MIGRATION },
    wrong: /: 003-third.ts is not number 2$/,
  },
  'a committed data folder': {
    files: { 'data/log/log.json': '{}' },
    wrong: /^nothing private comes along: data\/log\/log.json is committed$/,
  },
  'a committed file of settings': { files: { '.env': 'A=b\n' }, wrong: /: \.env is committed$/ },
  'a private key in a committed file': {
    files: { 'notes.txt': `-----${['BEGIN', 'PRIVATE', 'KEY-----'].join(' ')}\n` },
    wrong: /: notes.txt holds a private key$/,
  },
  'an outdated API document': {
    files: manifest({ scripts: { openapi: 'echo openapi.json is not fresh; exit 1;' } }),
    wrong: /^the documents of the API are fresh: openapi.json is not fresh$/,
  },
}

for (const [what, { files, wrong }] of Object.entries(BROKEN)) {
  test(`the release check refuses a repository with ${what}`, (t) => {
    const root = repository({ ...RIGHT, ...files })
    t.after(() => rmSync(root, { recursive: true }))
    const found = wrongIn(root)
    assert.equal(found.length, 1, found.join('\n'))
    assert.match(found[0] ?? '', wrong)
  })
}

test('a release cannot be tagged while there are uncommitted changes', (t) => {
  const root = repository(RIGHT)
  t.after(() => rmSync(root, { recursive: true }))
  put(root, { 'notes.txt': 'later' })
  assert.deepEqual(wrongIn(root), ['everything is committed: 1 files differ, notes.txt for one'])
})

test('the version, changelog, lock file and migrations of this repository are ready for a release', () => {
  const state = ['everything is committed', 'the tag is free']
  // Leaves out the check of the compiled contracts, which has its own test.
  const own = {
    ...(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as object),
    scripts: {},
  }
  const wrong = releaseChecks(ROOT, own).filter(
    ({ name, wrong }) => wrong !== '' && !state.includes(name),
  )
  assert.deepEqual(wrong, [])
})
