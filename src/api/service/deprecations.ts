/**
 * Every deprecated route of the API. Its answers carry `Deprecation`, `Sunset` and `Link`, and OpenAPI and the Postman
 * collection say so. A route stays at least six months after it was listed here.
 */

import type { Deprecations } from '#http/deprecation.ts'

export const DEPRECATIONS: Deprecations = {}
