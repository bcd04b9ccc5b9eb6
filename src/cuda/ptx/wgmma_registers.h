/// Accumulators of warpgroup matrix instructions as operand lists: PTX wants every register by name.
#pragma once

// BALEEN_NAMES_n: the first n operands. BALEEN_REGISTERS_n(o): d[o] .. d[o + n - 1], read and written.
#define BALEEN_NAMES_4 "%0, %1, %2, %3"
#define BALEEN_NAMES_8 BALEEN_NAMES_4 ", %4, %5, %6, %7"
#define BALEEN_NAMES_16 BALEEN_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define BALEEN_NAMES_20 BALEEN_NAMES_16 ", %16, %17, %18, %19"
#define BALEEN_NAMES_24 BALEEN_NAMES_20 ", %20, %21, %22, %23"
#define BALEEN_NAMES_28 BALEEN_NAMES_24 ", %24, %25, %26, %27"
#define BALEEN_NAMES_32 \
  BALEEN_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BALEEN_NAMES_36 BALEEN_NAMES_32 ", %32, %33, %34, %35"
#define BALEEN_NAMES_48 \
  BALEEN_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define BALEEN_NAMES_64                                                              \
  BALEEN_NAMES_32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BALEEN_NAMES_96                                                              \
  BALEEN_NAMES_64                                                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define BALEEN_NAMES_128                                                                         \
  BALEEN_NAMES_64                                                                                \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define BALEEN_NAMES_56 BALEEN_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"

#define BALEEN_REGISTERS_4(o) "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3])
#define BALEEN_REGISTERS_8(o) BALEEN_REGISTERS_4(o), BALEEN_REGISTERS_4(o + 4)
#define BALEEN_REGISTERS_16(o) BALEEN_REGISTERS_8(o), BALEEN_REGISTERS_8(o + 8)
#define BALEEN_REGISTERS_20(o) BALEEN_REGISTERS_16(o), BALEEN_REGISTERS_4(o + 16)
#define BALEEN_REGISTERS_24(o) BALEEN_REGISTERS_16(o), BALEEN_REGISTERS_8(o + 16)
#define BALEEN_REGISTERS_28(o) BALEEN_REGISTERS_24(o), BALEEN_REGISTERS_4(o + 24)
#define BALEEN_REGISTERS_32(o) BALEEN_REGISTERS_16(o), BALEEN_REGISTERS_16(o + 16)
#define BALEEN_REGISTERS_36(o) BALEEN_REGISTERS_32(o), BALEEN_REGISTERS_4(o + 32)
#define BALEEN_REGISTERS_48(o) BALEEN_REGISTERS_32(o), BALEEN_REGISTERS_16(o + 32)
#define BALEEN_REGISTERS_56(o) BALEEN_REGISTERS_48(o), BALEEN_REGISTERS_8(o + 48)
#define BALEEN_REGISTERS_64(o) BALEEN_REGISTERS_32(o), BALEEN_REGISTERS_32(o + 32)
#define BALEEN_REGISTERS_96(o) BALEEN_REGISTERS_64(o), BALEEN_REGISTERS_32(o + 64)
#define BALEEN_REGISTERS_128(o) BALEEN_REGISTERS_64(o), BALEEN_REGISTERS_64(o + 64)
