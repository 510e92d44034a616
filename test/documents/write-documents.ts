/**
 * `npm run openapi` writes `docs/openapi.json` and `docs/asyncapi.json` as an exchange serves them. With `-- --release`
 * it also writes `docs/released`, the contract with which later changes are compared. Use that only for a release,
 * never to make a test pass.
 */

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { endWithHelp } from '../support/help.ts'
import { contractOf } from './breaking-changes.ts'
import { documentPath, servedDocuments, writtenDocument } from './served-documents.ts'

endWithHelp(`Writes docs/openapi.json and docs/asyncapi.json as an exchange serves them.

  npm run openapi -- [options]

  --check     writes nothing; ends with 1 where what is committed is not what is served
  --release   also what clients of a release may count on; only when a version is released
`)

const { values } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    release: { type: 'boolean', default: false },
  },
})
for (const [name, document] of Object.entries(await servedDocuments())) {
  const written = writtenDocument(document)
  if (values.check) {
    if ((await readFile(documentPath(name), 'utf8').catch(() => '')) === written) continue
    process.stderr.write(`docs/${name} is not what is served: npm run openapi writes it\n`)
    process.exitCode = 1
    continue
  }
  await writeFile(documentPath(name), written)
  if (!values.release) continue
  await mkdir(documentPath('released'), { recursive: true })
  await writeFile(documentPath(`released/${name}`), writtenDocument(contractOf(document)))
}
