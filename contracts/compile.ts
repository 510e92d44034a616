/**
 * Compiles `contracts/src` with the npm package `solc` and writes `contracts/artifacts`. For each contract it writes a
 * JSON file with ABI and bytecode, and a TypeScript file with the ABI, so that viem knows its types. The output depends
 * only on the sources and the pinned packages. `manifest.json` contains a hash of the sources and package versions, and
 * a hash of the output. A test compares these hashes; `npm run contracts -- --check` compiles again and compares the
 * output.
 *
 * Contracts under `src/test` exist for the tests (malicious tokens and receivers). Their artifacts are under
 * `artifacts/test` and are deployed only by tests.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = dirname(fileURLToPath(import.meta.url))
const SOURCES = join(HERE, 'src')
const ARTIFACTS = join(HERE, 'artifacts')
const MANIFEST = 'manifest.json'

/**
 * Number of the compiler's warning about transient storage. The warning is ignored, because the contracts use transient
 * storage only for the reentrancy guard, and to cache the results of a pure function.
 */
const TRANSIENT_STORAGE_WARNING = '2394'

const require = createRequire(import.meta.url)

type Solc = {
  compile(
    input: string,
    callbacks: { import(path: string): { contents: string } | { error: string } },
  ): string
}

type SolcContract = {
  abi: { type: string }[]
  evm: { bytecode: { object: string }; deployedBytecode: { object: string } }
}

type SolcOutput = {
  errors?: { severity: string; errorCode?: string; formattedMessage: string }[]
  contracts: Record<string, Record<string, SolcContract>>
}

type SolcInput = { readonly sources: Readonly<Record<string, { readonly content: string }>> }

function compilerInput(): SolcInput {
  const names = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.sol'))
    .map((name) => name.replaceAll('\\', '/'))
    .sort()
  return {
    language: 'Solidity',
    sources: Object.fromEntries(
      names.map((name) => [name, { content: readFileSync(join(SOURCES, name), 'utf8') }]),
    ),
    settings: {
      evmVersion: 'cancun',
      optimizer: { enabled: true, runs: 10_000 },
      metadata: { bytecodeHash: 'none' },
      outputSelection: {
        '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] },
      },
    },
  } as SolcInput
}

/** `sources` is a hash of the compiler's input and the package versions. `artifacts` is a hash of the artifacts. */
export type Manifest = { readonly sources: string; readonly artifacts: string }

export function manifestOf(artifacts: ReadonlyMap<string, string>): Manifest {
  const version = (name: string) =>
    (require(`${name}/package.json`) as { readonly version: string }).version
  const packages = ['solc', '@openzeppelin/contracts'].map((name) => `${name} ${version(name)}`)
  return {
    sources: hashOf([...packages, JSON.stringify(compilerInput())]),
    artifacts: hashOf([...artifacts].flat()),
  }
}

function hashOf(texts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(texts)).digest('hex')
}

/** Compiles every contract under `contracts/src`. Returns the texts of the artifacts by file name, sorted. */
export function compileContracts(): Map<string, string> {
  const solc = require('solc') as Solc
  const input = compilerInput()
  const output = JSON.parse(
    solc.compile(JSON.stringify(input), { import: readImport }),
  ) as SolcOutput
  const problems = (output.errors ?? []).filter(
    ({ severity, errorCode }) => severity !== 'info' && errorCode !== TRANSIENT_STORAGE_WARNING,
  )
  if (problems.length > 0) {
    throw new Error(problems.map(({ formattedMessage }) => formattedMessage).join('\n'))
  }
  return artifacts(output, Object.keys(input.sources))
}

function readImport(path: string): { contents: string } | { error: string } {
  try {
    return { contents: readFileSync(require.resolve(path), 'utf8') }
  } catch {
    return { error: `no such source: ${path}` }
  }
}

/**
 * Returns the artifacts by file name. Skips contracts without bytecode (abstract contracts and interfaces), and
 * contracts without an ABI (libraries of internal functions).
 */
function artifacts(output: SolcOutput, names: string[]): Map<string, string> {
  const files = new Map<string, string>()
  for (const source of names) {
    const folder = source.startsWith('test/') ? 'test/' : ''
    const contracts = Object.entries(output.contracts[source] ?? {})
    for (const [contractName, { abi, evm }] of contracts) {
      if (evm.bytecode.object === '' || abi.length === 0) continue
      const text = JSON.stringify(
        {
          contractName,
          abi,
          bytecode: `0x${evm.bytecode.object}`,
          deployedBytecode: `0x${evm.deployedBytecode.object}`,
        },
        null,
        2,
      )
      files.set(`${folder}${contractName}.json`, `${text}\n`)
      files.set(`${folder}${contractName}.abi.ts`, abiModule(contractName, abi))
    }
  }
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function abiModule(contractName: string, abi: object): string {
  const name = `${contractName[0]?.toLowerCase()}${contractName.slice(1)}Abi`
  const literal = JSON.stringify(abi, null, 2)
  return `// Generated by contracts/compile.ts\nexport const ${name} = ${literal} as const\n`
}

/** Returns the committed artifacts in the same form as `compileContracts`. */
export function readArtifacts(): Map<string, string> {
  const names = readdirSync(ARTIFACTS, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name !== MANIFEST && (name.endsWith('.json') || name.endsWith('.ts')))
    .sort()
  return new Map(names.map((name) => [name, readFileSync(join(ARTIFACTS, name), 'utf8')]))
}

function writeArtifacts(files: Map<string, string>): void {
  rmSync(ARTIFACTS, { recursive: true, force: true })
  mkdirSync(join(ARTIFACTS, 'test'), { recursive: true })
  for (const [name, text] of files) writeFileSync(join(ARTIFACTS, name), text)
  const manifest = JSON.stringify(manifestOf(files), null, 2)
  writeFileSync(join(ARTIFACTS, MANIFEST), `${manifest}\n`)
}

export function readManifest(): Manifest {
  return JSON.parse(readFileSync(join(ARTIFACTS, MANIFEST), 'utf8')) as Manifest
}

/** Returns the names of committed artifacts that differ from the freshly compiled ones. */
function staleArtifacts(fresh: ReadonlyMap<string, string>): string[] {
  const committed = readArtifacts()
  const names = new Set([...committed.keys(), ...fresh.keys()])
  return [...names].filter((name) => committed.get(name) !== fresh.get(name))
}

const HELP = `Compiles contracts/src and writes contracts/artifacts.

  npm run contracts              compiles and writes
  npm run contracts -- --check   compiles, writes nothing, and ends with 1 where something is not fresh
`

const isCommand = process.argv[1] === fileURLToPath(import.meta.url)
if (isCommand && process.argv.some((each) => each === '--help' || each === '-h')) {
  process.stdout.write(HELP)
} else if (isCommand) {
  const files = compileContracts()
  const count = [...files.keys()].filter((name) => name.endsWith('.json')).length
  if (process.argv.includes('--check')) {
    const stale = staleArtifacts(files)
    if (stale.length > 0) process.exitCode = 1
    console.log(
      stale.length === 0
        ? `contracts: ${count} are what their sources compile to`
        : `contracts: not fresh, run npm run contracts: ${stale.join(', ')}`,
    )
  } else {
    writeArtifacts(files)
    console.log(`contracts: ${count} compiled`)
  }
}
