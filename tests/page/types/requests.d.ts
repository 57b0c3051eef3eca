// Requests by their address: `get("/v1/documents/…")` has the type of its reply, and unknown addresses are errors.

import type { paths } from "../../../build/page-types/api";

type Bare<Path extends string> = Path extends `${infer Before}?${string}` ? Before : Path;
type Parts<Path extends string> = Path extends `${infer First}/${infer Rest}` ? [First, ...Parts<Rest>] : [Path];
type Part<Name extends string> = Name extends `{${string}}` ? string : Name;
type Pattern<Path extends string> = Path extends `${infer First}/${infer Rest}` ? [Part<First>, ...Pattern<Rest>] : [Part<Path>];

/** The path of a request in the OpenAPI: the same path, or a pattern that matches it. */
type Described<Path extends string> = Path extends keyof paths
  ? Path
  : { [Each in keyof paths]: Parts<Path> extends Pattern<Each> ? Each : never }[keyof paths];
type Operation<Path extends string, Method extends string> = [Described<Bare<Path>>] extends [never]
  ? never
  : paths[Described<Bare<Path>>] extends Record<Lowercase<Method>, infer Found>
    ? Found
    : never;

type Json<Answer> = Answer extends { content: { "application/json": infer Body } } ? Body : never;
type Good<Answers> = { [Status in keyof Answers]: Status extends 204 ? null : Status extends 200 | 201 | 202 ? Json<Answers[Status]> : never };
type ReplyOf<Operated> = Operated extends { responses: infer Answers } ? Good<Answers>[keyof Answers] : never;
type BodyOf<Operated> = Operated extends { requestBody?: infer Request } ? Json<NonNullable<Request>> : undefined;

declare global {
  namespace Http {
    /** A path of the API that has this method. */
    type Known<Path extends string, Method extends string> = [Operation<Path, Method>] extends [never] ? "the API has no such address" : unknown;
    type Reply<Path extends string, Method extends string> = ReplyOf<Operation<Path, Method>>;
    type Body<Path extends string, Method extends string> = BodyOf<Operation<Path, Method>>;
  }
}
