/** Steps that all packages share: compiling the sources of a package separately, and packing the package with npm. */

import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const run = promisify(execFile)

/** Matches an import of another file of this repository, by a relative path or by a path that begins with `#`. */
export const SPECIFIER = /(\bfrom\s+|\bimport\(\s*)(['"])(#[^'"]+|\.[^'"]+)\2/g

const COMPILER = {
  target: 'ES2022',
  lib: ['ES2023', 'DOM', 'DOM.Iterable', 'DOM.AsyncIterable'],
  module: 'NodeNext',
  types: [],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  verbatimModuleSyntax: true,
  skipLibCheck: true,
  declaration: true,
  rewriteRelativeImportExtensions: true,
  rootDir: 'source',
  outDir: 'package',
}

/**
 * Compiles the folder `source` into the folder `package`, both in the build's folder. The options in `further` are
 * added to the usual compiler options.
 */
export async function compile(build: string, name: string, further: object = {}): Promise<void> {
  const config = { compilerOptions: { ...COMPILER, ...further }, include: ['source'] }
  await writeFile(join(build, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(build, 'package.json'), '{"type":"module"}')
  await symlink(join(ROOT, 'node_modules'), join(build, 'node_modules'))
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  await run(process.execPath, [tsc, '-p', build]).catch(({ stdout }: { stdout: string }) => {
    throw new Error(`${name} does not compile by itself:\n${stdout}`)
  })
}

/** Replaces `.ts` by `.js` in the imports of declaration files. The compiler replaces it only in JavaScript files. */
export async function endDeclarations(folder: string): Promise<void> {
  for (const name of await readdir(folder, { recursive: true })) {
    if (!name.endsWith('.d.ts')) continue
    const text = await readFile(join(folder, name), 'utf8')
    const ended = text.replace(SPECIFIER, (found) => found.replace(/\.ts(['"])$/, '.js$1'))
    await writeFile(join(folder, name), ended)
  }
}

/**
 * Copies each declaration file as `.d.cts` for CommonJS. In a package of ES modules, a compiler reads `.d.ts` as the
 * declaration of an ES module.
 */
export async function addCommonJsTypes(folder: string): Promise<void> {
  for (const name of await readdir(folder, { recursive: true })) {
    if (!name.endsWith('.d.ts')) continue
    const text = await readFile(join(folder, name), 'utf8')
    const turned = text.replace(SPECIFIER, (found) => found.replace(/\.js(['"])$/, '.cjs$1'))
    await writeFile(join(folder, name.replace(/\.d\.ts$/, '.d.cts')), turned)
  }
}

/** Makes the tarball of `package` in the build's folder, and returns its path. */
export async function packFolder(build: string, to: string): Promise<string> {
  await mkdir(to, { recursive: true })
  const options = ['--json', '--ignore-scripts', '--offline', '--pack-destination', resolve(to)]
  const { stdout } = await run('npm', ['pack', join(build, 'package'), ...options], { cwd: build })
  const [packed] = JSON.parse(stdout) as { filename: string }[]
  return join(resolve(to), packed!.filename)
}
