/**
 * The programming interface that TypeScript had before version 7, as `openapi-typescript` knows it: the
 * one that `@ts-morph/common` carries. A second `typescript` in this installation would contend for `tsc`.
 */

import { ts } from '@ts-morph/common'

// biome-ignore lint/style/noDefaultExport: it stands for a library that has one
export default ts
