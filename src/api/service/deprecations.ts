/**
 * Every deprecated route of the API. Its answers have the headers `Deprecation`, `Sunset` and `Link`, and OpenAPI and
 * the Postman collection mark it. A route stays at least six months after it was listed here.
 */

import type { Deprecations } from '#http/deprecation.ts'

export const DEPRECATIONS: Deprecations = {}
