/**
 * Exports the API of TypeScript before version 7, which `openapi-typescript` needs. The API comes from
 * `@ts-morph/common`, because a second installed `typescript` would compete for the command `tsc`.
 */

import { ts } from '@ts-morph/common'

// biome-ignore lint/style/noDefaultExport: it stands for a library that has one
export default ts
