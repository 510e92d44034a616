/**
 * Checks whether the files in a folder may be tagged: everything is committed, has the same version, lists its changes,
 * and contains no private files.
 */

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

export type ReleaseCheck = {
  readonly name: string
  /** Description of the fault; empty if the check succeeds. */
  readonly wrong: string
  /** Reason why the check was skipped; undefined if it ran. */
  readonly skipped?: string
}

type Package = {
  readonly version?: string
  readonly license?: string
  readonly scripts?: Readonly<Record<string, string>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const VERSION = /^(\d+)\.(\d+)\.(\d+)$/
const SECTION = /^## (\S+)(?: \((\S+)\))?$/gm
/** Files that belong to one machine only. */
const PRIVATE_FILES = /(^|\/)(\.env|data|secrets|node_modules)(\/|$)|\.(log|key|pem|sqlite|db)$/
/** The first line of a private key, in parts, so that this file does not contain it. */
const PRIVATE_WORDS = ['BEGIN', 'PRIVATE', 'KEY-----']
const TEXT_BYTES_MAX = 1_000_000
const COMMANDS = {
  'the contracts are what their sources compile to': 'contracts',
  'the documents of the API are fresh': 'openapi',
} as const

/** Runs the checks in a folder; `manifest` replaces the folder's package.json. */
export function releaseChecks(root: string, manifest = manifestOf(root)): ReleaseCheck[] {
  const text = (path: string): string =>
    existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : ''
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const version = manifest.version ?? ''
  const checks: [name: string, look: () => string][] = [
    ['everything is committed', () => uncommitted(git('status', '--porcelain'))],
    ['the version is one', () => versionTrouble(version, text('package-lock.json'))],
    ['the changelog has it on top', () => changelogTrouble(version, text('CHANGELOG.md'))],
    ['the tag is free', () => tagTrouble(`v${version}`, git)],
    ['dependencies are pinned', () => pinTrouble(manifest)],
    ['the lock file names no registry', () => lockTrouble(text('package-lock.json'))],
    ['the licence is there', () => licenceTrouble(manifest, text('LICENSE'))],
    ['migrations are listed', () => migrationTrouble(root, text)],
    ['nothing private comes along', () => privateTrouble(root, git('ls-files', '-z').split('\0'))],
  ]
  return [
    ...checks.map(([name, look]) => ({ name, wrong: look() })),
    ...Object.entries(COMMANDS).map(([name, script]) => commandCheck(root, name, script, manifest)),
  ]
}

function manifestOf(root: string): Package {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Package
}

function uncommitted(status: string): string {
  const files = status.split('\n').filter((line) => line !== '')
  return files.length === 0 ? '' : `${files.length} files differ, ${files[0]?.slice(3)} for one`
}

function versionTrouble(version: string, lockText: string): string {
  if (!VERSION.test(version)) return `package.json has "${version}", which is no x.y.z`
  const lock = JSON.parse(lockText || '{}') as {
    version?: string
    packages?: Record<string, { version?: string }>
  }
  const others = [lock.version, lock.packages?.['']?.version].filter((each) => each !== version)
  return others.length === 0 ? '' : `package.json has ${version}, package-lock.json ${others[0]}`
}

function changelogTrouble(version: string, changelog: string): string {
  // An invalid version was already reported.
  if (!VERSION.test(version)) return ''
  const sections = [...changelog.matchAll(SECTION)]
  const [first] = sections
  if (first === undefined) return 'CHANGELOG.md has no version'
  const [, name = '', date = ''] = first
  if (name !== version) return `CHANGELOG.md begins with ${name}, package.json has ${version}`
  if (!isDate(date)) return `${version} has no date like 2026-01-31 in CHANGELOG.md`
  const [, own = ''] = changelog.split(first[0])
  if (!/^- /m.test(own.split('\n## ')[0] ?? '')) return `CHANGELOG.md says nothing of ${version}`
  const numbers = sections.map(([, each = '']) => each)
  const unordered = numbers.find((each, at) => at > 0 && compare(numbers[at - 1]!, each) <= 0)
  return unordered === undefined ? '' : `${unordered} is not older than what is above it`
}

function isDate(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))
}

function compare(one: string, other: string): number {
  const [a, b] = [one, other].map((text) => (VERSION.exec(text) ?? []).slice(1).map(Number))
  for (let at = 0; at < 3; at++) {
    const difference = (a?.[at] ?? -1) - (b?.[at] ?? -1)
    if (difference !== 0) return difference
  }
  return 0
}

function tagTrouble(tag: string, git: (...args: string[]) => string): string {
  if (git('tag', '--list', tag).trim() === '') return ''
  const [at, head] = [`${tag}^{commit}`, 'HEAD'].map((name) => git('rev-parse', name).trim())
  return at === head ? '' : `${tag} is another commit already`
}

function pinTrouble(manifest: Package): string {
  const all = [manifest.dependencies, manifest.devDependencies, manifest.optionalDependencies]
  const loose = all
    .flatMap((each) => Object.entries(each ?? {}))
    .find(([, version]) => !/^(npm:[^\s]+@)?\d+\.\d+\.\d+[\w.-]*$/.test(version))
  return loose === undefined ? '' : `${loose[0]} may be any of ${loose[1]}`
}

function lockTrouble(lockText: string): string {
  if (lockText === '') return 'there is no package-lock.json'
  const found = /"resolved": "([^"]*)"/.exec(lockText)
  return found === null ? '' : `it has ${found[1]}`
}

function licenceTrouble({ license }: Package, text: string): string {
  if (license !== 'Apache-2.0') return `package.json says ${license ?? 'nothing'}`
  return text.includes('Apache License') ? '' : 'LICENSE is not the text of Apache-2.0'
}

/** Checks that migrations are numbered without a gap, and that the list has all of them. Returns the fault, or ''. */
function migrationTrouble(root: string, text: (path: string) => string): string {
  const folder = 'src/store/migrations'
  const path = join(root, folder)
  const names = existsSync(path) ? readdirSync(path).filter((name) => /^\d{3}-/.test(name)) : []
  const [first] = names.sort()
  if (first === undefined) return `there are none in ${folder}`
  for (const [at, name] of names.entries()) {
    const number = Number(first.slice(0, 3)) + at
    if (Number(name.slice(0, 3)) !== number) return `${name} is not number ${number}`
  }
  const list = text(`${folder}/list.ts`)
  const missing = names.find((name) => !list.includes(`/${name}'`))
  return missing === undefined ? '' : `${folder}/list.ts does not list ${missing}`
}

function privateTrouble(root: string, files: readonly string[]): string {
  const named = files.find((file) => PRIVATE_FILES.test(file))
  if (named !== undefined) return `${named} is committed`
  const words = PRIVATE_WORDS.join(' ')
  const holding = files.find((file) => {
    const path = join(root, file)
    const entry = file === '' ? undefined : statSync(path, { throwIfNoEntry: false })
    if (entry?.isFile() !== true || entry.size > TEXT_BYTES_MAX) return false
    return readFileSync(path, 'latin1').includes(words)
  })
  return holding === undefined ? '' : `${holding} holds a private key`
}

function commandCheck(
  root: string,
  name: string,
  script: string,
  { scripts }: Package,
): ReleaseCheck {
  if (scripts?.[script] === undefined) {
    return { name, wrong: '', skipped: `there is no npm run ${script}` }
  }
  const { status, stdout, stderr } = spawnSync('npm', ['run', '-s', script, '--', '--check'], {
    cwd: root,
    encoding: 'utf8',
  })
  const said = `${stdout}${stderr}`.trim().split('\n').at(-1) ?? ''
  return {
    name,
    wrong: status === 0 ? '' : said || `npm run ${script} -- --check ends with ${status}`,
  }
}
