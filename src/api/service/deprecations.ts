/**
 * All deprecated routes of the API. Their answers have the headers `Deprecation`, `Sunset` and `Link`;
 * OpenAPI and the Postman collection mark the routes. A route stays at least six months after it was listed
 * here.
 */

import type { Deprecations } from '#http/deprecation.ts'

export const DEPRECATIONS: Deprecations = {}
